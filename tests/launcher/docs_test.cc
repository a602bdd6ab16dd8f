// README and recipes say what is so: keys, paths and gaps are compared with the schema and the tree.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "parallel/train/config.h"
#include "parallel/train/config_schema.h"
#include "parallel/train/unused_keys.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = WEFT_ROOT;

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::vector<std::string> Matches(const std::string& text, const std::string& pattern) {
  std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

TEST(Readme, HoldsTheSchemasTable) {
  const std::string begin = "<!-- config keys: begin -->\n", end = "<!-- config keys: end -->";
  std::string readme = Read(kRoot / "README.md"), table = ConfigMarkdown();
  size_t from = readme.find(begin), to = readme.find(end);
  ASSERT_TRUE(from != readme.npos && to != readme.npos);
  from += begin.size();
  if (std::getenv("WEFT_UPDATE_README")) {
    std::ofstream(kRoot / "README.md", std::ios::binary) << readme.substr(0, from) + table + readme.substr(to);
    GTEST_SKIP() << "README.md now holds the table";
  }
  EXPECT_EQ(readme.substr(from, to - from), table) << "run this test once with WEFT_UPDATE_README=1";
}

// `section.key`, alone or before = or :, is a key of the schema.
TEST(Readme, NamesOnlyKeysThatExist) {
  std::string readme = Read(kRoot / "README.md");
  std::string sections;
  for (const std::string& name : SectionNames())
    if (!name.empty()) sections += (sections.empty() ? "" : "|") + name;
  std::vector<std::string> keys = Matches(readme, "\\b((?:" + sections + ")\\.[a-z_]+)(?=[`=:])");
  EXPECT_GE(keys.size(), Schema().size());
  for (const std::string& key : keys) EXPECT_NE(FindField(key), nullptr) << key;
}

TEST(Readme, NamesOnlyPathsThatExist) {
  std::vector<std::string> paths = Matches(
      Read(kRoot / "README.md"), "(?:^|[\\s`])(?:\\./)?((?:src|launcher|tests|configs|cmake)/[A-Za-z0-9_./-]*)");
  EXPECT_GE(paths.size(), 10u);
  for (const std::string& path : paths) EXPECT_TRUE(fs::exists(kRoot / path)) << path;
}

TEST(Readme, NamesWhatIsNotBuilt) {
  std::string readme = Read(kRoot / "README.md"), gaps = readme.substr(readme.find("## Not built yet"));
  for (const Field& field : Schema()) {
    bool named = gaps.find("`" + std::string(field.key)) != gaps.npos;
    EXPECT_TRUE(named || !field.not_built) << field.key;
  }
}

TEST(Recipes, AllLoad) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "configs")) {
    absl::StatusOr<Config> config = LoadConfig(entry.path().string(), {});
    ASSERT_TRUE(config.ok()) << std::string(config.status().message());
    EXPECT_EQ(UnusedKeys(*config), std::vector<std::string>()) << entry.path();
    count++;
  }
  EXPECT_GE(count, 4);
}

// The contract of the field's small run.
TEST(Recipes, ShakespeareCharHasTheAgreedSizes) {
  absl::StatusOr<Config> c = LoadConfig((kRoot / "configs/shakespeare_char.yaml").string(), {});
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->model.family, "gpt2");
  EXPECT_EQ(c->model.layers, 4);
  EXPECT_EQ(c->model.heads, 4);
  EXPECT_EQ(c->model.dim, 128);
  EXPECT_EQ(c->model.context, 64);
  EXPECT_EQ(c->model.dropout, 0);
  EXPECT_EQ(c->train.global_batch, 12);
  EXPECT_EQ(c->train.steps, 2000);
  EXPECT_EQ(c->data.tokenizer, "chars");
  EXPECT_EQ(c->data.val.fraction, 0.1);
  EXPECT_EQ(c->train.eval_batches, TrainConfig::kAllBatches);
}

// The quickstart's text is there in every clone.
TEST(Recipes, QuickstartNamesTextOfTheTree) {
  absl::StatusOr<Config> c = LoadConfig((kRoot / "configs/quickstart.yaml").string(), {});
  ASSERT_TRUE(c.ok());
  for (const std::string& path : c->data.train) EXPECT_TRUE(fs::exists(kRoot / path)) << path;
}

}  // namespace
}  // namespace weft
