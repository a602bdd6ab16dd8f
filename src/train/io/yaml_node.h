// YamlNode: a parsed YAML document as plain values with positions. ParseYaml hides the YAML library.
#pragma once
#include <list>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

struct YamlEntry;

struct YamlNode {
  enum Kind { kNull, kScalar, kList, kMap };
  Kind kind = kNull;
  std::string text;          // of a scalar
  bool quoted = false;       // a quoted scalar is always a string
  int line = 0, column = 0;  // from 1
  // std::list, because a value takes about a hundred bytes however short its text. A growing vector would need three
  // times that.
  std::list<YamlNode> items;
  std::list<YamlEntry> entries;  // in file order, including duplicates
};

struct YamlEntry {
  std::string key;
  int line = 0, column = 0;
  YamlNode value;
};

// Parses one document. Refuses what the library would accept silently: unclosed quotes, a second document, tags, and
// keys that are not scalars. Refuses anchors and aliases too. Errors read "name:line:column: text".
absl::StatusOr<YamlNode> ParseYaml(std::string_view text, const std::string& name);

}  // namespace weft
