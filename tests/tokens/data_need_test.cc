// The memory of data: the estimate before the data is read agrees with what a data set then holds.
#include "weft/train/data/data_need.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tokens/data_testing.h"
#include "tokens/packed_testing.h"
#include "tokens/text_testing.h"

namespace weft {
namespace {

using namespace testing_;

// Returns documents of different lengths.
std::vector<std::string> Pages(uint64_t seed, size_t count) {
  std::vector<std::string> pages;
  for (size_t i = 0; i < count; i++) pages.push_back(Prose(seed + i, 20 + Draw(seed, i) % 60));
  return pages;
}

int64_t HeldBytes(const Config& config) {
  absl::StatusOr<Dataset> data = Dataset::Load(config);
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? data->HeldBytes() : -1;
}

struct Form {
  const char* name;
  std::string (*pack)(const std::vector<std::string>& pages);
};
std::string Joined(const std::vector<std::string>& pages) {
  std::string text;
  for (const std::string& page : pages) text += page;
  return text;
}
const Form kForms[] = {{"a.txt", Joined},
                       {"a.txt.gz", [](const auto& pages) { return Gzip(Joined(pages)); }},
                       {"a.txt.zst", [](const auto& pages) { return Zstd(Joined(pages)); }},
                       {"a.jsonl", [](const auto& pages) { return JsonLines(pages); }},
                       {"a.jsonl.gz", [](const auto& pages) { return Gzip(JsonLines(pages)); }},
                       {"a.jsonl.zst", [](const auto& pages) { return Zstd(JsonLines(pages)); }}};

// A small file is read whole, so its estimate is exact. For a large file a part is read and extrapolated.
TEST(DataNeed, IsWhatTextTakesInEveryForm) {
  TempFolder folder;
  for (const auto& [count, tolerance] : std::map<size_t, double>{{20, 0}, {9000, 0.1}})
    for (const Form& form : kForms) {
      std::string path = folder.Write(form.name, form.pack(Pages(7, count)));
      for (const char* tokenizer : {"bytes", "chars"}) {
        Config config = MakeConfig(path, {std::string("data.tokenizer=") + tokenizer, "data.val=0.1"});
        DataNeed need = EstimateDataNeed(config);
        EXPECT_EQ(need.unknown, "");
        double held = double(HeldBytes(config));
        ASSERT_GT(held, 0);
        EXPECT_NEAR(double(need.tokens), held, tolerance * held) << form.name << " " << tokenizer << " " << count;
        EXPECT_NEAR(double(need.text), held / sizeof(int32_t), tolerance * held) << form.name;
      }
    }
}

TEST(DataNeed, AddsUpSourcesAndValidation) {
  TempFolder folder;
  std::string a = folder.Write("a.txt", Prose(1, 300)),
              b = folder.Write("b.jsonl.gz", Gzip(JsonLines(Pages(2, 9), "body"))),
              val = folder.Write("val.txt", Prose(3, 50));
  std::string mixture = fmt::format("data.train=[{{path: {}, weight: 3}}, {{path: {}, field: body}}]", a, b);
  for (const std::vector<std::string>& words : {std::vector{mixture}, std::vector{mixture, "data.val=[" + val + "]"}}) {
    Config config = MakeConfig("x", words);
    EXPECT_EQ(EstimateDataNeed(config).tokens, HeldBytes(config)) << words.size();
  }
}

// Shards stay in their files and synthetic tokens are drawn, so neither takes memory.
TEST(DataNeed, IsNothingWithoutText) {
  TempFolder folder;
  std::string shards = WriteShards(folder, "shards", Letters(500));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"model.vocab=256", "data.tokenizer=bytes"},
                                                {"data.synthetic=true", "model.vocab=256"}}) {
    Config config = MakeConfig(shards, words);
    DataNeed need = EstimateDataNeed(config);
    EXPECT_EQ(need.tokens, 0);
    EXPECT_EQ(need.unknown, "");
    EXPECT_EQ(HeldBytes(config), 0);
  }
}

TEST(DataNeed, SaysWhyItIsNotKnown) {
  TempFolder folder;
  EXPECT_NE(EstimateDataNeed(MakeConfig(folder.Path("none.txt"), {})).unknown.find("none.txt: no such file"),
            std::string::npos);
  std::string text = folder.Write("a.txt", "text");
  DataNeed need = EstimateDataNeed(MakeConfig(text, {"data.tokenizer=tiktoken:" + folder.Path("none")}));
  EXPECT_NE(need.unknown.find("none"), std::string::npos) << need.unknown;
  std::string damaged = folder.Write("b.txt.gz", Gzip(Prose(1, 5000)).substr(0, 2000));
  need = EstimateDataNeed(MakeConfig(damaged, {}));
  EXPECT_NE(need.unknown.find("expected a whole gzip stream"), std::string::npos) << need.unknown;
  EXPECT_EQ(need.tokens, 0);
}

}  // namespace
}  // namespace weft
