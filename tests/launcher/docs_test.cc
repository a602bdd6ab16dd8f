// README, docs/ and recipes are correct: their keys, commands, variables, events, paths, excerpts and gaps are compared
// with the schema, the reference pages and the tree. docs_commands_test runs the commands, and reference_test compares
// the reference pages with the program.
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
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

const fs::path kRoot = WEFT_ROOT, kIndex = kRoot / "docs/README.md";

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

// Returns README, CONTRIBUTING and the pages of docs/.
std::vector<fs::path> Pages() {
  std::vector<fs::path> pages{kRoot / "README.md", kRoot / "CONTRIBUTING.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
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
  std::string language;
  fs::path file;
  std::string text{};  // without the last newline
};
std::vector<Block> BlocksOf(const fs::path& page) {
  std::vector<Block> blocks;
  fs::path file;
  bool inside = false;
  for (const std::string& line : Split(Read(page), "\n")) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({line.substr(3), file});
    } else if (inside) {
      blocks.back().text += (blocks.back().text.empty() ? "" : "\n") + line;
    } else {
      for (const std::string& link : Matches(line, "\\]\\(([.a-zA-Z_/0-9-]+\\.[a-z]+)\\)"))
        file = fs::weakly_canonical(page.parent_path() / link);
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
      if (std::isalnum(c) || c == ' ' || c == '-' || c == '_') anchor += c == ' ' ? '-' : char(std::tolower(c));
    anchors.insert(anchor);
  }
  return anchors;
}

// Every `section.key`, by itself or before = or :, is a key of the schema.
TEST(Pages, NameOnlyKeysThatExist) {
  std::string sections;
  for (const std::string& name : SectionNames())
    if (!name.empty()) sections += (sections.empty() ? "" : "|") + name;
  size_t count = 0;
  for (const fs::path& page : Pages())
    for (const std::string& key : Matches(Read(page), "(?:^|[^/a-z_.])((?:" + sections + ")\\.[a-z_]+)(?=[`=:])")) {
      EXPECT_NE(FindField(key), nullptr) << page << ": " << key;
      count++;
    }
  EXPECT_GE(count, Schema().size());
}

// Returns what the page of docs/reference has in code in the first column of its tables.
std::set<std::string> Named(const char* page) {
  std::vector<std::string> names = Matches(Read(kRoot / "docs/reference" / page), "\n\\| `([^`]*)`");
  return {names.begin(), names.end()};
}

TEST(Pages, NameOnlyCommandsThatExist) {
  std::set<std::string> commands = Anchors(Read(kRoot / "docs/reference/commands.md"));
  for (const char* own : {"weft-help", "weft-version"}) commands.insert(own);
  size_t count = 0;
  for (const fs::path& page : Pages())
    for (const std::string& name : Matches(Read(page), "(?:`|release/)weft ([a-z]+)")) {
      EXPECT_TRUE(commands.contains("weft-" + name)) << page << ": weft " << name;
      count++;
    }
  EXPECT_GE(count, 100u);
}

TEST(Pages, NameOnlyVariablesThatExist) {
  std::set<std::string> variables = Named("environment.md");
  for (const fs::path& page : Pages())
    for (const std::string& name : Matches(Read(page), "`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=[^`]*)?`"))
      EXPECT_TRUE(variables.contains(name)) << page << ": " << name;
}

TEST(Pages, NameOnlyEventsThatExist) {
  std::set<std::string> events = Anchors(Read(kRoot / "docs/reference/log-events.md"));
  for (const fs::path& page : Pages())
    for (const std::string& name : Matches(Read(page), "`([a-z]+)` events?\\b"))
      EXPECT_TRUE(events.contains(name)) << page << ": " << name;
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
      if (link.starts_with("https://")) continue;
      size_t hash = std::min(link.find('#'), link.size());
      fs::path target = hash == 0 ? page : fs::weakly_canonical(page.parent_path() / link.substr(0, hash));
      EXPECT_TRUE(fs::exists(target)) << page << ": " << link;
      bool found = hash == link.size() || Anchors(Read(target)).contains(link.substr(hash + 1));
      EXPECT_TRUE(found) << page << ": " << link;
      if (page == kIndex) linked.insert(target);
    }
  for (const fs::path& page : Pages())
    EXPECT_TRUE(page == kIndex || linked.contains(fs::weakly_canonical(page))) << "the index misses " << page;
}

// A page's code equals its source, line by line. "..." stands for lines that are left out.
TEST(Pages, ExcerptsAreTheSources) {
  int count = 0;
  for (const fs::path& page : Pages())
    for (const Block& block : BlocksOf(page)) {
      if (block.language != "cpp" && block.language != "yaml") {
        // docs_commands_test runs the `sh` blocks and compares the `text` blocks. Readers see `mermaid` as a picture.
        EXPECT_TRUE(block.language == "sh" || block.language == "text" || block.language == "mermaid")
            << page << ": a block of \"" << block.language << '"';
        continue;
      }
      std::string source = "\n" + Read(block.file);
      size_t at = 0;
      for (const std::string& piece : Split(block.text, "\n...\n")) {
        at = source.find("\n" + piece + "\n", at);
        ASSERT_NE(at, source.npos) << page << ": not in " << block.file << ":\n" << piece;
        count++;
      }
    }
  EXPECT_GE(count, 10);
}

// The page has a row for each line and each kind of memory that the golden files of weft plan have.
TEST(Pages, ExplainEachLineOfThePlan) {
  std::string page = Read(kRoot / "docs/guide/change-the-mesh.md");
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/golden")) {
    if (!entry.path().filename().string().starts_with("plan_") || entry.path().extension() != ".txt") continue;
    std::string text = "\n" + Read(entry.path());
    for (const char* pattern : {"\n *([a-z][a-z ]*):", "\n  ([a-z]+) +[0-9.]+ [KMG]?i?B", "\n  (fullest at) "})
      for (std::string& name : Matches(text, pattern)) names.insert(std::move(name));
  }
  for (const std::string& name : names)
    EXPECT_TRUE(page.find("| `" + name + "`") != page.npos || page.find("`, `" + name + "` |") != page.npos) << name;
  EXPECT_GE(names.size(), 15u);
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
