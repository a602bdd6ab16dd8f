// WideWalk: a nest of loops in device code. It maps a step number to the offsets of N operands.
#pragma once
#include "weft/kernels/common/nest.h"

namespace weft::cuda {

template <int N>
struct WideWalk {
  int rank;
  int64_t extents[kMaxRank];
  int64_t strides[kMaxRank][N];

  explicit WideWalk(const Nest& nest) : rank(nest.rank) {
    for (int d = 0; d < rank; d++) {
      extents[d] = nest.extents[size_t(d)];
      for (int o = 0; o < N; o++) strides[d][o] = nest.strides[size_t(d)][size_t(o)];
    }
  }

  // Adds the offsets of a step to `at`.
  __device__ __forceinline__ void Advance(int64_t step, int64_t (&at)[N]) const {
    for (int d = rank - 1; d >= 0; d--) {
      int64_t index = step;
      if (d > 0) {
        int64_t rest = Divide(step, extents[d]);
        index = step - rest * extents[d];
        step = rest;
      }
#pragma unroll
      for (int o = 0; o < N; o++) at[o] += index * strides[d][o];
    }
  }

 private:
  // A division of 64 bits takes some 70 instructions, one of 32 bits a few.
  static __device__ __forceinline__ int64_t Divide(int64_t a, int64_t b) {
    return ((a | b) >> 32) == 0 ? int64_t(uint32_t(a) / uint32_t(b)) : a / b;
  }
};

}  // namespace weft::cuda
