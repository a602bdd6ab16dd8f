// README, docs/ and recipes are correct: their keys, paths, excerpts and gaps are compared with the schema and the
// tree. docs_commands_test runs the commands.
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "weft/train/config/config.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/unused_keys.h"

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

std::vector<std::string> Split(const std::string& text, const char* by) { return absl::StrSplit(text, by); }

// Returns README and the pages of docs/.
std::vector<fs::path> Pages() {
  std::vector<fs::path> pages{kRoot / "README.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs")) pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::string WithoutBlocks(const std::string& page) {
  std::string text, line;
  bool inside = false;
  for (std::istringstream lines(page); std::getline(lines, line);) {
    if (line.starts_with("```"))
      inside = !inside;
    else if (!inside)
      text += line + '\n';
  }
  return text;
}

// A fenced block of a page, and the last link to a file of the tree before it.
struct Block {
  std::string language, file;
  std::string text{};  // without the last newline
};
std::vector<Block> BlocksOf(const std::string& page) {
  std::vector<Block> blocks;
  std::string file;
  bool inside = false;
  for (const std::string& line : Split(page, "\n")) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), file});
    } else if (inside) {
      blocks.back().text += (blocks.back().text.empty() ? "" : "\n") + line;
    } else {
      for (const std::string& link : Matches(line, "\\]\\(\\.\\./([a-z_/0-9-]+\\.[a-z]+)\\)")) file = link;
    }
  }
  EXPECT_FALSE(inside) << "a block that does not end";
  return blocks;
}

// Returns the anchors of a page's headings: their words in lower case, joined by dashes.
std::set<std::string> Anchors(const std::string& page) {
  std::set<std::string> anchors;
  for (const std::string& line : Split(page, "\n")) {
    if (!line.starts_with("#")) continue;
    std::string anchor;
    for (char c : line.substr(line.find(' ') + 1))
      if (std::isalnum(c) || c == ' ' || c == '-') anchor += c == ' ' ? '-' : char(std::tolower(c));
    anchors.insert(anchor);
  }
  return anchors;
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

// Every `section.key`, by itself or before = or :, is a key of the schema.
TEST(Pages, NameOnlyKeysThatExist) {
  std::string sections;
  for (const std::string& name : SectionNames())
    if (!name.empty()) sections += (sections.empty() ? "" : "|") + name;
  size_t count = 0;
  for (const fs::path& page : Pages())
    for (const std::string& key : Matches(Read(page), "\\b((?:" + sections + ")\\.[a-z_]+)(?=[`=:])")) {
      EXPECT_NE(FindField(key), nullptr) << page << ": " << key;
      count++;
    }
  EXPECT_GE(count, Schema().size());
}

TEST(Pages, NameOnlyPathsThatExist) {
  for (const fs::path& page : Pages()) {
    std::vector<std::string> paths =
        Matches(Read(page), "(?:^|[\\s`])(?:\\./)?((?:src|launcher|tests|configs|cmake|docs)/[A-Za-z0-9_./-]*)");
    for (const std::string& path : paths) EXPECT_TRUE(fs::exists(kRoot / path)) << page << ": " << path;
  }
}

TEST(Pages, LinkToWhatIsThere) {
  std::set<fs::path> linked;
  for (const fs::path& page : Pages())
    // A lambda in a block of code looks like a link.
    for (const std::string& link : Matches(WithoutBlocks(Read(page)), "\\]\\(([^)]*)\\)")) {
      size_t hash = std::min(link.find('#'), link.size());
      fs::path target = hash == 0 ? page : fs::weakly_canonical(page.parent_path() / link.substr(0, hash));
      EXPECT_TRUE(fs::exists(target)) << page << ": " << link;
      bool found = hash == link.size() || Anchors(Read(target)).contains(link.substr(hash + 1));
      EXPECT_TRUE(found) << page << ": " << link;
      if (page == kRoot / "README.md") linked.insert(target);
    }
  for (const fs::path& page : Pages())
    EXPECT_TRUE(page == kRoot / "README.md" || linked.contains(fs::weakly_canonical(page))) << "README misses " << page;
}

// A page's code equals its source, line by line. "..." stands for lines that are left out.
TEST(Pages, ExcerptsAreTheSources) {
  int count = 0;
  for (const fs::path& page : Pages())
    for (const Block& block : BlocksOf(Read(page))) {
      if (block.language != "cpp" && block.language != "yaml") {
        // docs_commands_test runs the `sh` blocks and compares the `text` blocks. Readers see `mermaid` as a picture.
        EXPECT_TRUE(block.language == "sh" || block.language == "text" || block.language == "mermaid")
            << page << ": a block of \"" << block.language << '"';
        continue;
      }
      std::string source = "\n" + Read(kRoot / block.file);
      size_t at = 0;
      for (const std::string& piece : Split(block.text, "\n...\n")) {
        at = source.find("\n" + piece + "\n", at);
        ASSERT_NE(at, source.npos) << page << ": not in " << block.file << ":\n" << piece;
        count++;
      }
    }
  EXPECT_GE(count, 10);
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

// The sizes that the field uses for the small Shakespeare run.
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

// Every clone contains the quickstart's text.
TEST(Recipes, QuickstartNamesTextOfTheTree) {
  absl::StatusOr<Config> c = LoadConfig((kRoot / "configs/quickstart.yaml").string(), {});
  ASSERT_TRUE(c.ok());
  for (const std::string& path : c->data.train) EXPECT_TRUE(fs::exists(kRoot / path)) << path;
}

}  // namespace
}  // namespace weft
