// What a config's `device` comes to on several ranks.
#pragma once
#include <string>
#include <vector>

#include "parallel/train/config.h"

namespace weft {

// Why a run of so many ranks cannot be on GPUs; "" where it can.
std::string NoGpuReason(int64_t ranks);

// What differs between the device that a resolved config asks for and the one that weft train takes, a line each, to be
// printed as notes. `has_driver`: this host has NVIDIA's driver, so that `device: auto` could mean a GPU.
std::vector<std::string> DeviceNotes(const Config& config, bool has_driver);

}  // namespace weft
