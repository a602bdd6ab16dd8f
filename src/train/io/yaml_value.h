// What YAML scalars say: numbers, choices and paths, and how errors show them. Strict: no guessing between types.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "weft/train/io/yaml_node.h"

namespace weft {

// What came, as an error shows it.
std::string Shown(const YamlNode& node);

// Reads a plain scalar that is wholly a number. No leading zeros: YAML versions differ on them.
bool ReadNumber(const YamlNode& node, double& value);
bool ReadNumber(const YamlNode& node, int64_t& value);

// Whether the text is a choice, or follows one that ends in ':'. Any text is where there are no choices.
bool IsChoice(const std::vector<std::string>& choices, const std::string& text);
// "; did you mean "cuda"?", or "" where no choice is near.
std::string DidYouMean(const std::string& text, const std::vector<std::string>& choices);

// A path as shells know it, which leave it alone after "key=", as YAML does.
bool IsOfHome(const YamlNode& node);
std::string HomeHint(const YamlNode& node);

// Plain where YAML and our own reader take it back as the same string, else in double quotes.
std::string Quoted(const std::string& text);

}  // namespace weft
