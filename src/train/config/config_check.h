// What must hold between keys, once all of them are read.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// "configs/a.yaml:3:11: model.dim: " for a given key, else the place of its section, else of the file.
std::string PlaceOf(const Config& config, const std::string& key);

// Of an item of a list that is the value of a key.
struct ItemPlace {
  int line = 0, column = 0;
  std::string file{};  // "": the config's, or the command line
};
// "configs/a.yaml:3:11: optimizer.groups: ", or "command line: optimizer.groups: ".
std::string PlaceOfItem(const Config& config, const std::string& key, const ItemPlace& item);

// Whether the key was given as a word, not in a file.
bool FromCommandLine(const Config& config, const std::string& key);

// One line a fault, place included; empty when the config can run. The rules are asked too.
std::vector<std::string> CheckConfig(const Config& config, std::span<const ConfigRule> rules = {});

}  // namespace weft
