// Walk: a nest of loops for kernels. It maps a step number to the element offsets of all operands.
//
//   ForEachWalk(nest, {}, [&](const Walk& walk) { Kernel<<<Blocks(walk.steps, kThreads), ...>>>(walk, ...); });
//   Place at = walk.At(step);  // at.of[operand], for step < walk.steps
#pragma once
#include "absl/functional/function_ref.h"
#include "weft/kernels/common/nest.h"

namespace weft::cuda {

inline constexpr int kWalked = 4;  // maximum operands of a walk

// Divides numbers below 2^31 by a divisor that is known before the launch, with a product and a shift (Granlund and
// Montgomery, "Division by invariant integers using multiplication", PLDI 1994).
class FastDivide {
 public:
  FastDivide() = default;
  explicit FastDivide(uint32_t divisor);
  __device__ __forceinline__ uint32_t operator()(uint32_t n) const { return (__umulhi(n, magic_) + n) >> shift_; }

 private:
  uint32_t magic_ = 1, shift_ = 0;
};

struct Place {
  int64_t of[kWalked];
};

struct Walk {
  struct Loop {
    FastDivide divide;
    uint32_t extent = 1;
    int64_t strides[kWalked] = {};
  };
  int rank = 0;
  uint32_t steps = 1;  // below 2^31
  int64_t first[kWalked] = {};
  Loop loops[kMaxRank];

  Walk() = default;
  Walk(const Nest& nest, const Offsets& start);
  __device__ __forceinline__ Place At(uint32_t step) const {
    Place at;
#pragma unroll
    for (int o = 0; o < kWalked; o++) at.of[o] = first[o];
    for (int d = rank - 1; d > 0; d--) {
      uint32_t rest = loops[d].divide(step), i = step - rest * loops[d].extent;
#pragma unroll
      for (int o = 0; o < kWalked; o++) at.of[o] += i * loops[d].strides[o];
      step = rest;
    }
#pragma unroll
    for (int o = 0; o < kWalked; o++) at.of[o] += step * loops[0].strides[o];
    return at;
  }
};

// Calls fn with walks that together cover a collapsed nest of at most kWalked operands, which starts at the offsets
// `first`. A nest of 2^31 steps or more takes several walks, an empty one none.
void ForEachWalk(const Nest& nest, const Offsets& first, absl::FunctionRef<void(const Walk&)> fn);

// Returns the number of blocks that take `per_block` steps each.
inline unsigned Blocks(uint32_t steps, int64_t per_block) { return unsigned(CeilDiv(steps, per_block)); }

}  // namespace weft::cuda
