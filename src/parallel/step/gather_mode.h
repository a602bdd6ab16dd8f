// GatherMode: how a step gathers weights and activations over GPUs (arena_windows.h).
#pragma once
#include <cstdint>

namespace weft {

enum class GatherMode : uint8_t {
  kKernels,  // by kernels of NCCL
  kCopy,     // by the GPUs' copy engines, which take no multiprocessor
};

}  // namespace weft
