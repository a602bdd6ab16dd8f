// Reading texts in blocks: the text does not depend on the block size, and errors name the place in the file.
#include "weft/train/io/text_reader.h"

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "tokens/text_testing.h"
#include "train/temp_folder.h"

namespace weft {
namespace {

using namespace testing_;

// Cuts contain whole code points, as many as were asked for.
TEST(Utf8, CutsBetweenCodePoints) {
  std::string text = RandomText(4, 300);
  for (size_t end = 0; end <= text.size(); end++) {
    std::string_view cut = std::string_view(text).substr(0, end);
    size_t whole = WholeCodePoints(cut);
    ASSERT_EQ(InvalidUtf8(cut.substr(0, whole)), cut.npos);
    ASSERT_LT(end - whole, 4u);
    ASSERT_TRUE(whole == end || InvalidUtf8(cut) == whole);
  }
  size_t at = 0;
  for (int64_t count = 0; at < text.size(); count++, NextCodePoint(text, at)) {
    int64_t left = count;
    ASSERT_EQ(SkipCodePoints(text, left), at);
    ASSERT_EQ(left, 0);
  }
  int64_t left = 1'000'000;
  EXPECT_EQ(SkipCodePoints(text, left), text.size());
  EXPECT_EQ(left, 1'000'000 - int64_t(CountCodePoints(text)));
}

TEST(TextReader, BlocksOfAnySizeAreTheText) {
  TempFolder folder;
  std::string a = RandomText(1, 200), b = RandomText(2, 90), c = "€";
  std::vector<std::string> files = {folder.Write("a", a), folder.Write("b", b), folder.Write("c", c)};
  for (size_t block = 4; block < 300; block++) {
    TextReader reader(files, block);
    std::string all;
    for (std::string_view text; !(text = reader.Next().value()).empty(); all += text) {
      EXPECT_LE(text.size(), block);
      EXPECT_EQ(InvalidUtf8(text), text.npos);
    }
    ASSERT_EQ(all, a + b + c) << block;
  }
}

// Whatever the place of the bad byte in its block, and also if the end of a file cuts a character.
TEST(TextReader, NamesTheOffsetInTheFile) {
  TempFolder folder;
  std::string good = folder.Write("good", "some text\n");
  for (size_t at = 0; at < 40; at++)
    for (const char* bad : {"\xFF", "\xE2\x28", "\xE2\x82"}) {
      std::string text = std::string(at, 'x') + bad + (bad[1] == '\x82' ? "" : "more");
      TextReader reader({good, folder.Write("bad", text)}, 16);
      absl::StatusOr<std::string_view> next;
      while ((next = reader.Next()).ok()) ASSERT_FALSE(next->empty());
      std::string error(next.status().message()), expected = fmt::format("at offset {}; convert the file", at);
      EXPECT_NE(error.find(expected), error.npos) << error;
    }
}

}  // namespace
}  // namespace weft
