// Checks between keys, after all of them have been read.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "weft/train/config/config.h"

namespace weft {

// Returns "configs/a.yaml:3:11: model.dim: " for a given key. For any other key, returns the position of its section,
// or else of the file.
std::string PlaceOf(const Config& config, const std::string& key);
// Returns the error of a key: its place, and then `what`.
absl::Status RefuseKey(const Config& config, const std::string& key, absl::string_view what);

// The position of an item in a list that is the value of a key.
struct ItemPlace {
  int line = 0, column = 0;
  std::string file{};  // "": the config's file, or the command line
};
// Returns "configs/a.yaml:3:11: optimizer.groups: " or "command line: optimizer.groups: ".
std::string PlaceOfItem(const Config& config, const std::string& key, const ItemPlace& item);

// Whether the key was given on the command line rather than in a file.
bool FromCommandLine(const Config& config, const std::string& key);

// Returns one line per fault, with its position, or nothing if the config can run. Applies `rules` too.
std::vector<std::string> CheckConfig(const Config& config, std::span<const ConfigRule> rules = {});

}  // namespace weft
