// Notes on the device that a run takes, where a config asks for another.
#pragma once
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// Why a run of so many ranks cannot be on GPUs; "" where it can.
std::string NoGpuReason(int64_t ranks);

// One line for each way in which the device that weft train takes differs from the one that a resolved config asks for.
// `has_driver`: this host has NVIDIA's driver, so `device: auto` could mean a GPU.
std::vector<std::string> DeviceNotes(const Config& config, bool has_driver);

}  // namespace weft
