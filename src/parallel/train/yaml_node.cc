// The only file that includes yaml-cpp.
#include "parallel/train/yaml_node.h"

#include <yaml-cpp/yaml.h>

#include "fmt/format.h"
#include "parallel/train/utf8.h"

namespace weft {
namespace {

absl::Status At(const std::string& name, int line, int column, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}:{}:{}: {}", name, line, column, what));
}

// The index behind the closing quote of the scalar that opens at `begin`, or npos.
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

// The column (from 1) of a quote that is not closed on its line, or 0. The library reads on to the end of the file.
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

absl::Status CheckText(std::string_view text, const std::string& name) {
  int number = 0;
  for (size_t begin = 0; begin < text.size(); number++) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (size_t bad = InvalidUtf8(line); bad != line.npos) {
      return At(name, number + 1, int(bad) + 1, "expected UTF-8 text, got a byte that is none; save the file as UTF-8");
    }
    if (int column = OpenQuote(line))
      return At(name, number + 1, column, "the quote is not closed on its line; close it");
    begin = end + 1;
  }
  return absl::OkStatus();
}

// Converts, and refuses by throwing the library's own exception type, which carries the position.
YamlNode Convert(const YAML::Node& from) {
  YAML::Mark mark = from.Mark();
  YamlNode to{.line = mark.line + 1, .column = mark.column + 1};
  const std::string& tag = from.Tag();
  if (!tag.empty() && tag != "?" && tag != "!")
    throw YAML::ParserException(mark, "a config has no tags; remove " + tag);
  if (from.IsScalar()) {
    to.kind = YamlNode::kScalar;
    to.text = from.Scalar();
    to.quoted = tag == "!";
  } else if (from.IsSequence()) {
    to.kind = YamlNode::kList;
    for (const YAML::Node& item : from) to.items.push_back(Convert(item));
  } else if (from.IsMap()) {
    to.kind = YamlNode::kMap;
    for (const auto& entry : from) {
      YAML::Mark at = entry.first.Mark();
      if (!entry.first.IsScalar()) throw YAML::ParserException(at, "expected a key, got a list or mapping");
      to.entries.push_back({entry.first.Scalar(), at.line + 1, at.column + 1, Convert(entry.second)});
    }
  }
  return to;
}

}  // namespace

absl::StatusOr<YamlNode> ParseYaml(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (absl::Status status = CheckText(text, name); !status.ok()) return status;
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) return YamlNode{.line = 1, .column = 1};
    if (documents.size() > 1) {
      YAML::Mark mark = documents[1].Mark();
      return At(name, mark.line + 1, mark.column + 1, "expected one YAML document, got a second one");
    }
    return Convert(documents[0]);
  } catch (const YAML::Exception& error) {
    return At(name, error.mark.line + 1, error.mark.column + 1, "not valid YAML: " + error.msg);
  }
}

}  // namespace weft
