// OverlapMode: whether the collectives of a compiled program run at the same time as its kernels.
#pragma once
#include <cstdint>

namespace weft {

enum class OverlapMode : uint8_t {
  kAuto,    // kAlways on a GPU, kNever on the CPU
  kNever,   // one after the other
  kAlways,  // collectives run while kernels do, which keep their order
  kFill,    // kernels move too: what nothing waits for, such as a weight's gradient, runs while others wait
            // (interleave.h)
  kHalves,  // as kFill, and a training step computes its batch as two halves, which wait in turns
  kChunks,  // as kFill, and between collectives rows are computed in chunks, which wait in turns (chunk.h)
};

}  // namespace weft
