// The config that lies beside prepared tokens: a small model, of which any key can be changed.
#pragma once
#include <string>

#include "weft/train/data/prepare.h"

namespace weft {

std::string PreparedConfig(const PrepareReport& report);

}  // namespace weft
