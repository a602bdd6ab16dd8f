// Text in all its forms: packed or plain, whole files or records, the tokens are equal. A damaged file is refused and
// never read as another text.
#include "weft/train/data/documents.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "address_space.h"
#include "fmt/format.h"
#include "tokens/data_testing.h"
#include "tokens/packed_testing.h"
#include "tokens/text_testing.h"
#include "tokens/tokenizer_json_testing.h"
#include "weft/train/data/prepare.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;
using Texts = std::vector<std::string>;

constexpr int32_t kBegin = 257, kEnd = 258;

// Writes a tokenizer with bytes, one merge, a token that begins every text, and one between documents.
std::string WriteTokenizer(const TempFolder& folder) {
  return "huggingface:" +
         folder.Write("t/tokenizer.json", TokenizerJson({.merges = {{"a", "b"}},
                                                         .added = AddedJson(kBegin, "<|begin|>", "s") + "," +
                                                                  AddedJson(kEnd, "<|endoftext|>", "s"),
                                                         .post_processor = TemplateJson("<|begin|>", kBegin)}));
}

Tokens All(const TokenStream& stream) {
  Tokens tokens(size_t(stream.size()));
  stream.Read(0, tokens);
  return tokens;
}

std::vector<std::pair<std::string, std::string>> Packings(const std::string& text) {
  size_t half = WholeCodePoints(std::string_view(text).substr(0, text.size() / 2));
  std::string head = text.substr(0, half), tail = text.substr(half);
  return {{"plain", text},
          {"gz", Gzip(text)},
          {"two.gz", Gzip(head) + Gzip(tail)},
          {"zst", Zstd(text)},
          {"two.zst", Zstd(head) + Zstd(tail)}};
}

absl::StatusOr<std::string> ReadAll(const std::string& path, size_t block = TextReader::kBlock) {
  std::string all;
  for (TextReader reader({path}, block);;) {
    absl::StatusOr<std::string_view> text = reader.Next();
    if (!text.ok()) return text.status();
    if (text->empty()) return all;
    all += *text;
  }
}

TEST(Documents, PackedTextIsTheTextInBlocksOfAnySize) {
  TempFolder folder;
  for (const std::string& text : {std::string("x"), RandomText(3, 300), Prose(1, 60'000)})
    for (const auto& [name, bytes] : Packings(text)) {
      std::string path = folder.Write(name, bytes);
      for (size_t block : {4, 5, 7, 64, 4096, 1 << 18})
        if (block >= 64 || text.size() < 5000) {
          ASSERT_EQ(ReadAll(path, block).value(), text) << name << " " << block;
        }
      if (text.size() > 9) {
        EXPECT_EQ(All(MakeDataset(path).train()), *Tokenizer::Bytes().Encode(text)) << name;
      }
    }
}

// Whatever the place where the file is cut off, and whichever of its bits is wrong.
TEST(Documents, DamagedStreamsAreRefusedWithFileAndOffset) {
  TempFolder folder;
  std::string text = Prose(5, 14);
  for (const auto& [name, bytes] : Packings(text)) {
    if (name == "plain") continue;
    bool two = name.starts_with("two");
    size_t refused = 0;
    for (size_t size = 4; size < bytes.size(); size++) {
      absl::StatusOr<std::string> cut = ReadAll(folder.Write("cut", bytes.substr(0, size)), 64);
      if (two && cut.ok()) continue;  // cut at the end of the first stream
      std::string error(cut.status().message());
      EXPECT_NE(error.find(folder.Path("cut") + ": expected a whole "), error.npos) << name << " " << size << error;
      EXPECT_NE(error.find(fmt::format("ends within it, at offset {}", size)), error.npos) << error;
      refused++;
    }
    EXPECT_GE(refused, bytes.size() - 5);
    for (size_t bit = 4 * 8; bit < bytes.size() * 8; bit++) {
      std::string wrong = bytes;
      wrong[bit / 8] = char(wrong[bit / 8] ^ (1 << bit % 8));
      absl::StatusOr<std::string> read = ReadAll(folder.Write("wrong", wrong), 64);
      ASSERT_TRUE(!read.ok() || *read == text) << name << ": bit " << bit << " makes another text";
    }
  }
}

// The law of documents: the begin token, and then the tokens of each document with one end-of-text token between two.
// It holds for files and records, packed or not, read as text or prepared in blocks of a few bytes.
TEST(Documents, AreJoinedByTheEndOfText) {
  TempFolder folder;
  std::string name = WriteTokenizer(folder);
  Tokenizer tokenizer = *Tokenizer::Open(name);
  EXPECT_EQ(tokenizer.end_of_text(), kEnd);
  for (size_t count : {1, 2, 3, 17}) {
    Texts texts, files;
    for (size_t i = 0; i < count; i++) {
      texts.push_back(Prose(i, 20 + 7 * i) + RandomText(50 + i, 30) + (i % 3 ? "\n" : "ab"));
      if (texts[i].starts_with("\xEF\xBB\xBF")) texts[i].erase(0, 3);
      files.push_back(folder.Write(fmt::format("d{}/{:02}.txt", count, i), texts[i]));
    }
    Tokens expected = {kBegin};
    for (size_t i = 0; i < count; i++) {
      if (i > 0) expected.push_back(kEnd);
      Tokens tokens = *tokenizer.Encode(texts[i]);
      expected.insert(expected.end(), tokens.begin(), tokens.end());
    }
    Texts inputs = {folder.Path(fmt::format("d{}", count))};
    for (const auto& [packing, bytes] : Packings(JsonLines(texts)))
      inputs.push_back(folder.Write(fmt::format("r{}-{}.jsonl.gz", count, packing), bytes));
    for (const std::string& input : inputs) {
      Dataset data = MakeDataset(input, {"data.tokenizer=" + name});
      ASSERT_EQ(All(data.train()), expected) << input;
      absl::StatusOr<PrepareReport> report =
          Prepare({.out = folder.Path(input + "-out"), .inputs = {input}, .tokenizer = name, .val = {}, .block = 7});
      ASSERT_TRUE(report.ok()) << std::string(report.status().message());
      ASSERT_EQ(All(MakeDataset(report->train[0], {"data.tokenizer=" + name}).train()), expected) << input;
    }
  }
}

// data.val cuts its share off the characters of all documents, as if they were one text.
TEST(Documents, AValFractionCutsADocumentInTwo) {
  TempFolder folder;
  std::string name = WriteTokenizer(folder);
  Texts texts = {std::string(30, 'x'), std::string(30, 'y'), std::string(40, 'z')};
  std::string path = folder.Write("a.jsonl", JsonLines(texts));
  auto load = [&](double fraction) {
    return MakeDataset(path, {"data.tokenizer=" + name, fmt::format("data.val={}", fraction)});
  };
  auto tokens = [&](const Texts& parts) {
    Tokens all = {kBegin};
    for (const std::string& part : parts) {
      if (all.size() > 1) all.push_back(kEnd);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  Dataset within = load(0.5), between = load(0.4);
  EXPECT_EQ(All(within.train()), tokens({texts[0], std::string(20, 'y')}));
  EXPECT_EQ(All(within.val()), tokens({std::string(10, 'y'), texts[2]}));
  EXPECT_EQ(All(between.train()), tokens({texts[0], texts[1]}));
  EXPECT_EQ(All(between.val()), tokens({texts[2]}));
  EXPECT_EQ(*within.EvalBytes(within.eval_windows()), 50) << "an end of text is no text";
}

// If the tokenizer has no token between documents, they form one text.
TEST(Documents, OfBytesAreJoinedByNothing) {
  TempFolder folder;
  EXPECT_EQ(All(MakeDataset(folder.Write("a.ndjson", JsonLines({"some text, ", "and more"}))).train()),
            *Tokenizer::Bytes().Encode("some text, and more"));
  EXPECT_FALSE(Tokenizer::Bytes().end_of_text());
}

TEST(Documents, RecordsWithoutATextAreRefusedWithFileAndLine) {
  TempFolder folder;
  struct {
    std::string record, text;
  } cases[] = {
      {R"({"body": "b", "id": 3})",
       "a.jsonl:3: expected a record with the field \"text\", got one with the keys \"body\", \"id\"; name the field"},
      {"{}", "a.jsonl:3: expected a record with the field \"text\", got one with no keys"},
      {R"({"text": 7})", "a.jsonl:3: expected a text in the field \"text\", got 7; remove the record"},
      {R"({"text": "a\u0000b"})",
       "a.jsonl:3: expected a text in the field \"text\", got one with the character U+0000"},
      {R"({"text": "a)", "a.jsonl:3: "},
      {R"(["text"])", "a.jsonl:3: "},
      {R"({"text": "\ud800"})", "a.jsonl:3: "},
      {"{\"text\": \"caf\xE9\"}", "a.jsonl: expected UTF-8 text, got the byte 0xe9 at offset "},
  };
  for (const auto& bad : cases)
    for (bool packed : {false, true}) {
      std::string lines = JsonLines({"good"}) + "\n" + bad.record + "\n" + JsonLines({"more"});
      std::string error = LoadError(folder.Write("a.jsonl", packed ? Gzip(lines) : lines));
      EXPECT_NE(error.find("data.train: " + folder.Path("")), error.npos) << error;
      EXPECT_NE(error.find(bad.text), error.npos) << "expected " << bad.text << "\ngot      " << error;
    }
  std::string other = folder.Write("b.jsonl", JsonLines({"the body of it"}, "body"));
  EXPECT_EQ(All(MakeDataset(other, {"data.field=body"}).train()), *Tokenizer::Bytes().Encode("the body of it"));
}

TEST(Documents, SkippedPartsAreCountedAndNamed) {
  TempFolder folder;
  const std::string mark = "\xEF\xBB\xBF";
  folder.Write("d/a.txt", mark + "some text");
  folder.Write("d/b.jsonl", mark + "\n" + JsonLines({"one", "", "two"}) + " \r\n\n");
  folder.Write("d/c.gz", Gzip(mark + "more text"));
  folder.Write("d/empty", "");
  folder.Write("d/image", std::string("\x89PNG\0", 5));
  folder.Write("d/tar.gz", Gzip(std::string(600, '\0')));
  Dataset data = MakeDataset(folder.Path("d"));
  EXPECT_EQ(All(data.train()), *Tokenizer::Bytes().Encode("some textonetwomore text"));
  ASSERT_EQ(data.notes().size(), 1u);
  std::string note = data.notes()[0];
  EXPECT_TRUE(note.starts_with("a.yaml:3:8: data.train: skipped: empty or binary files: 3 (first ")) << note;
  for (const std::string& text : {"byte order marks: 3 (first " + folder.Path("d/a.txt") + ")",
                                  "blank lines: 3 (first " + folder.Path("d/b.jsonl") + ":1)",
                                  "records with an empty text: 1 (first " + folder.Path("d/b.jsonl") + ":3)"})
    EXPECT_NE(note.find(text), note.npos) << note << "\nlacks " << text;
  absl::StatusOr<PrepareReport> report =
      Prepare({.out = folder.Path("out"), .inputs = {folder.Path("d")}, .val = {}, .block = 5});
  ASSERT_TRUE(report.ok()) << std::string(report.status().message());
  EXPECT_NE(note.find(report->skipped), note.npos) << report->skipped;
  EXPECT_FALSE(report->skipped.empty());
  EXPECT_TRUE(MakeDataset(folder.Write("plain", Prose(1, 9))).notes().empty());
}

TEST(Documents, ParquetIsRefusedByName) {
  TempFolder folder;
  std::string parquet = "PAR1" + std::string(40, '\0') + "PAR1", path = folder.Write("d/a.parquet", parquet);
  folder.Write("d/b.txt", Prose(1, 9));
  for (const std::string& input : {path, folder.Path("d"), folder.Path("d/*")}) {
    std::string error = LoadError(input);
    EXPECT_NE(error.find(path + ": expected text, JSONL or token shards, got a Parquet file; make JSONL of it"),
              error.npos)
        << error;
  }
  EXPECT_EQ(MakeDataset(folder.Write("text", "PAR1 is no Parquet")).train().size(), 18);
}

// 96 MiB of text in a file of a few KiB. Training holds text in memory and reports how much is missing. Preparing the
// text takes no more memory than a short one.
TEST(Documents, MemoryIsAskedForBeforeItIsTaken) {
  if (IsSanitized()) GTEST_SKIP() << "a sanitizer cannot live under a limit of the address space";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TempFolder folder;
  std::string text = Prose(1, 20'000).substr(0, size_t{1} << 16);
  std::string packed;
  for (int i = 0; i < 1536; i++) packed += Zstd(text);
  std::string path = folder.Write("a.zst", packed);
  auto fails = [&] {
    LeaveAddressSpace(size_t{64} << 20);
    std::string error = LoadError(path);
    fmt::print(stderr, "{}\n", error);
    std::_Exit(error.find("give less of it, or token shards, which weft prepare makes") == error.npos ? 1 : 0);
  };
  EXPECT_EXIT(fails(), testing::ExitedWithCode(0), "data.train: out of memory on .*: .* MiB asked for \\(text\\)");
  auto streams = [&] {
    LeaveAddressSpace(size_t{40} << 20);
    absl::StatusOr<PrepareReport> report = Prepare({.out = folder.Path("out"), .inputs = {path}});
    if (!report.ok()) fmt::print(stderr, "{}\n", std::string(report.status().message()));
    std::_Exit(report.ok() && report->bytes == int64_t(96) << 20 ? 0 : 1);
  };
  EXPECT_EXIT(streams(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
