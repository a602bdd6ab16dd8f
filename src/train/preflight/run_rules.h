// The rules that the config of a run must pass before it begins, beside those of the config alone.
#pragma once
#include <span>

#include "weft/train/config/config.h"

namespace weft {

std::span<const ConfigRule> RunRules();

}  // namespace weft
