// The arithmetic of sums whose terms cross ranks in bf16 (core/ir/wire.h), on the host. StreamedDevice computes the
// same bits, except that a NaN may become a different NaN.
#pragma once
#include <cstdint>

#include "weft/core/base/dtype.h"

namespace weft {

// Rounds each of `count` elements to the nearest bf16, ties to even. NaN stays NaN; values from 2^128 - 2^119 on become
// infinity.
void NarrowOnHost(BF16* to, const float* from, int64_t count);
void WidenOnHost(float* to, const BF16* from, int64_t count);
// Sets to[i] = chunks[0][i] + chunks[1][i] + ..., added in f32 from left to right. chunks is [num_chunks, count], and
// num_chunks is at least 1. `dtype` is the type of `to`: f32, or bf16, to which the sum is rounded. `to` must not
// overlap a chunk. Throws Error for any other dtype.
void SumChunksOnHost(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count);

}  // namespace weft
