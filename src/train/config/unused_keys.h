// Finds keys that were given but have no effect because of another key.
#pragma once
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// Returns one line per key, with its position: "a.yaml:4:12: schedule.min_lr: has no effect, as schedule.name is
// constant; ...". Such keys get a warning and not an error, because an override that turns a feature off leaves the
// feature's other keys in the file. Keys at their defaults are skipped, because a merged config contains all keys.
std::vector<std::string> UnusedKeys(const Config& config);

}  // namespace weft
