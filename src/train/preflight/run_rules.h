// The rules that a config must pass before a run starts, in addition to the checks of the config itself.
#pragma once
#include <span>

#include "weft/train/config/config.h"

namespace weft {

std::span<const ConfigRule> RunRules();

}  // namespace weft
