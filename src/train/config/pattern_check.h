// Patterns of a config (optimizer.groups) against the model that they are for.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/nn/model.h"
#include "weft/train/config/config.h"

namespace weft {

// One line a fault, place included: a pattern that matches nothing.
std::vector<std::string> PatternFaults(const Config& config, Model& model);

}  // namespace weft
