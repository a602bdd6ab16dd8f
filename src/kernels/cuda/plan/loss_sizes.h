// How rows of logits are shared out by cross-entropy, and its workspace. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

inline constexpr int kLossThreads = 256;
inline constexpr int kUnroll = 4;                        // vectors that a thread has under way
inline constexpr int64_t kLossBlocks = 8 * kProcessors;  // of kLossThreads that run at a time
// Numbers that are known of a part of a row: a maximum, a sum of exponentials and a sum of logits, in the accumulate
// type.
inline constexpr size_t kKnownOfPart = 3;

// How many parts of a row: one, or as many as make for kLossBlocks blocks where each is still read in four goes.
int64_t PartsOfRow(int64_t rows, int64_t vectors);
// What is known of each part.
size_t LossWorkspace(const KernelCall& call);

}  // namespace weft::cuda
