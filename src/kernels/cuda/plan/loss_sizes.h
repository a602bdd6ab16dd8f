// How cross-entropy splits rows of logits over blocks, and its workspace. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

inline constexpr int kLossThreads = 256;
inline constexpr int kUnroll = 4;                        // vectors that each thread has in flight
inline constexpr int64_t kLossBlocks = 8 * kProcessors;  // blocks of kLossThreads that run at a time
// Values that are kept per part of a row, in the accumulate type: a maximum, a sum of exponentials and a sum of logits.
inline constexpr size_t kKnownOfPart = 3;

// Returns the number of parts per row: as many as make kLossBlocks blocks, or one if each part would then take fewer
// than four iterations.
int64_t PartsOfRow(int64_t rows, int64_t vectors);
// Returns the bytes of the values that are kept per part.
size_t LossWorkspace(const KernelCall& call);

}  // namespace weft::cuda
