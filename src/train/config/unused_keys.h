// Keys that were given and change nothing, because of another key.
#pragma once
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// One line a key, place included: "a.yaml:4:12: schedule.min_lr: has no effect, as schedule.name is constant; ...".
// Such keys are said and not refused: a word that switches something off leaves behind what the file says of it.
// Keys at their defaults are passed over, as a merged config has all of them.
std::vector<std::string> UnusedKeys(const Config& config);

}  // namespace weft
