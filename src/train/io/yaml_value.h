// Reads numbers, choices and paths from YAML scalars, and formats them for errors. Strict: does not guess types.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/host/suggest.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

// Formats a value for an error message.
std::string Shown(const YamlNode& node);

// Returns whether the node is a plain scalar that is a number as a whole, and stores it. Refuses leading zeros, because
// YAML versions differ on them.
bool ReadNumber(const YamlNode& node, double& value);
bool ReadNumber(const YamlNode& node, int64_t& value);
// Return what to do about a node that is no integer ("; write 2" for 2.0), or no number, or "".
std::string IntegerHint(const YamlNode& node);
std::string RealHint(const YamlNode& node);

// Whether `text` equals a choice, or starts with a choice that ends in ':'. With no choices, any text is valid.
bool IsChoice(const std::vector<std::string>& choices, const std::string& text);

// Whether a path starts with "~/". Neither YAML nor, after "key=", a shell expands it.
bool IsOfHome(const YamlNode& node);
std::string HomeHint(const YamlNode& node);

// Returns the text plain if YAML and our own parser read it back as the same string, otherwise in double quotes.
std::string Quoted(const std::string& text);

}  // namespace weft
