// The only file that includes yaml-cpp.
#include "weft/train/io/yaml_node.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "fmt/format.h"
#include "weft/core/host/utf8.h"

namespace weft {
namespace {

absl::Status At(const std::string& name, int line, int column, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}:{}:{}: {}", name, line, column, what));
}

// Returns the index after the closing quote of the scalar that opens at `begin`, or npos.
size_t EndOfQuoted(std::string_view line, size_t begin) {
  char quote = line[begin];
  for (size_t i = begin + 1; i < line.size(); i++) {
    if (quote == '"' && line[i] == '\\') {
      i++;
    } else if (line[i] == quote) {
      if (quote == '"' || i + 1 == line.size() || line[i + 1] != '\'') return i + 1;
      i++;  // '' is a quote inside single quotes
    }
  }
  return line.npos;
}

// Returns the column (from 1) of a quote that is not closed on its line, or 0. The library would read on to the end of
// the file.
int OpenQuote(std::string_view line) {
  bool at_start = true;  // a scalar may begin here
  for (size_t i = 0; i < line.size(); i++) {
    char ch = line[i], next = i + 1 < line.size() ? line[i + 1] : ' ';
    bool after_space = i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t';
    if (ch == '#' && after_space) return 0;
    if (at_start && (ch == '\'' || ch == '"')) {
      size_t end = EndOfQuoted(line, i);
      if (end == line.npos) return int(i) + 1;
      i = end - 1;
      at_start = false;
    } else if (ch == '[' || ch == '{' || ch == ',' || (ch == ':' && next == ' ') ||
               (at_start && ch == '-' && next == ' ')) {
      at_start = true;
    } else if (ch != ' ' && ch != '\t') {
      at_start = false;
    }
  }
  return 0;
}

// Returns the index of a control character other than tab, or npos. The library takes one of them, 0x04, for the end of
// the file and silently drops the rest.
size_t ControlCharacter(std::string_view line) {
  auto found = std::find_if(line.begin(), line.end(), [](char ch) { return uint8_t(ch) < 0x20 && ch != '\t'; });
  return found == line.end() ? line.npos : size_t(found - line.begin());
}

// Returns the index of a tab in the indentation of a line, or npos. Blank and comment lines may contain tabs.
size_t IndentingTab(std::string_view line) {
  size_t tab = line.find_first_not_of(' ');
  if (tab == line.npos || line[tab] != '\t') return line.npos;
  size_t first = line.find_first_not_of(" \t");
  return first == line.npos || line[first] == '#' ? line.npos : tab;
}

absl::Status CheckLine(std::string_view line, const std::string& name, int number) {
  if (size_t bad = InvalidUtf8(line); bad != line.npos)
    return At(name, number, int(bad) + 1, "expected UTF-8 text, got a byte that is none; save the file as UTF-8");
  if (size_t bad = ControlCharacter(line); bad != line.npos)
    return At(name, number, int(bad) + 1,
              fmt::format("expected text, got the control character 0x{:02x}; remove it", uint8_t(line[bad])));
  if (size_t tab = IndentingTab(line); tab != line.npos)
    return At(name, number, int(tab) + 1, "expected spaces at the start of the line, got a tab; indent with spaces");
  if (line.starts_with('%'))  // the library takes it for a directive even in the middle of a document
    return At(name, number, 1, "a config has no directives; remove the line, or put the word in quotes");
  if (int column = OpenQuote(line)) return At(name, number, column, "the quote is not closed on its line; close it");
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view text, const std::string& name) {
  int number = 1;
  for (size_t begin = 0; begin < text.size(); number++) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (absl::Status s = CheckLine(line, name, number); !s.ok()) return s;
    begin = end + 1;
  }
  return absl::OkStatus();
}

// Advice for the library's error messages.
constexpr std::pair<std::string_view, std::string_view> kAdvice[] = {
    {"illegal map value", "put a value with a colon in quotes; the keys of a mapping begin in one column"},
    {"end of map not found", "the keys of a mapping begin in one column"},
    {"end of map flow not found", "close the {"},
    {"end of sequence flow not found", "close the ["},
    {"illegal flow end", "remove it, or open what it closes"},
    {"unknown token", "put a value that begins with this character in quotes"},
    {"the referenced anchor is not defined", "a config has no aliases; put a value that begins with * in quotes"},
};

std::string Advised(const std::string& fault) {
  // yaml-cpp 0.8 adds a name to some of them: "the referenced anchor is not defined: a".
  for (const auto& [known, advice] : kAdvice)
    if (fault == known || fault.starts_with(std::string(known) + ": ")) return fmt::format("{}; {}", known, advice);
  return fault;
}

// Builds the tree from the parser's events. Reports errors by throwing the library's own exception, which carries the
// position.
class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) Refuse(mark, "expected one YAML document, got a second one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Add(Node(YamlNode::kNull, mark)); }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    Refuse(mark, "a config has no anchors, as it has no aliases; remove &" + name);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "expected a value, got an alias; repeat it");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    YamlNode node = Node(YamlNode::kScalar, mark, tag);
    node.text = value;
    node.quoted = tag == "!";
    Add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Begin(YamlNode::kList, mark, tag);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Begin(YamlNode::kMap, mark, tag);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Open {
    YamlNode node;
    std::optional<YamlNode> key = {};  // of a mapping, until its value arrives
  };

  [[noreturn]] static void Refuse(const YAML::Mark& mark, const std::string& what) {
    throw YAML::ParserException(mark, what);
  }
  void Begin(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag) {
    constexpr size_t kDeepest = 16;
    if (open_.size() == kDeepest) Refuse(mark, "a config is not nested so deeply; close what was opened before");
    open_.push_back({Node(kind, mark, tag)});
  }
  // A value takes about a hundred bytes however short its text.
  static constexpr int kMostValues = 4096;
  YamlNode Node(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag = "") {
    if (++values_ > kMostValues)
      Refuse(mark,
             fmt::format("expected at most {} values, got more; a folder or a glob names many files", kMostValues));
    if (!tag.empty() && tag != "?" && tag != "!") Refuse(mark, "a config has no tags; remove " + tag);
    return {.kind = kind, .line = mark.line + 1, .column = mark.column + 1};
  }
  void Close() {
    YamlNode done = std::move(open_.back().node);
    open_.pop_back();
    Add(std::move(done));
  }
  void Add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (Open& parent = open_.back(); parent.node.kind == YamlNode::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.key) {
      parent.node.entries.push_back({parent.key->text, parent.key->line, parent.key->column, std::move(node)});
      parent.key.reset();
    } else {
      YAML::Mark mark;
      mark.line = node.line - 1;
      mark.column = node.column - 1;
      if (node.kind != YamlNode::kScalar) Refuse(mark, "expected a key, got a list, a mapping or nothing");
      parent.key = std::move(node);
    }
  }

  YamlNode root_;
  std::vector<Open> open_;
  int documents_ = 0, values_ = 0;
};

}  // namespace

absl::StatusOr<YamlNode> ParseYaml(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (absl::Status status = CheckText(text, name); !status.ok()) return status;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder tree;
    if (!parser.HandleNextDocument(tree)) return YamlNode{.line = 1, .column = 1};
    // When asked for all documents, the library finds endless empty ones in a text that starts with a comma. Asking for
    // one more is enough to detect a second document.
    parser.HandleNextDocument(tree);
    return tree.TakeRoot();
  } catch (const YAML::Exception& error) {
    return At(name, error.mark.line + 1, error.mark.column + 1, "not a valid config: " + Advised(error.msg));
  }
}

}  // namespace weft
