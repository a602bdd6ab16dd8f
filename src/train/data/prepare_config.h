// The config that is written next to prepared tokens. It trains a small model; any key can be changed.
#pragma once
#include <string>

#include "weft/train/data/prepare.h"

namespace weft {

std::string PreparedConfig(const PrepareReport& report);

}  // namespace weft
