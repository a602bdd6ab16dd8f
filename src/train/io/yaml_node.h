// YamlNode: a parsed YAML document as plain values with positions; the YAML library stays behind ParseYaml.
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
  // Lists, as a value takes a hundred bytes however short its text: a vector that grows would take them thrice.
  std::list<YamlNode> items;
  std::list<YamlEntry> entries;  // in order, duplicates included
};

struct YamlEntry {
  std::string key;
  int line = 0, column = 0;
  YamlNode value;
};

// One document. Refuses what the library would take in silence: quotes left open, a second document, tags, keys that
// are no words; and aliases. Errors read "name:line:column: text".
absl::StatusOr<YamlNode> ParseYaml(std::string_view text, const std::string& name);

}  // namespace weft
