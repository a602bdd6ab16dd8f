// Finds keys that were given but have no effect because of another key.
#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "weft/train/config/config.h"

namespace weft {

// Returns one line per key, with its position: "a.yaml:4:12: schedule.min_lr: has no effect, as schedule.name is
// constant; ...". Such keys get a warning and not an error, because an override that turns a feature off leaves the
// feature's other keys in the file. Keys at their defaults are skipped, because a merged config contains all keys.
std::vector<std::string> UnusedKeys(const Config& config);

// Returns an error with the first of these lines whose key asks for memory between GPUs. A run refuses such a key, so
// that it does not train more slowly than was asked for.
absl::Status CheckUsed(const Config& config);

}  // namespace weft
