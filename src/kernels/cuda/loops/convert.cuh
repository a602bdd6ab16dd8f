// Elements in device code: conversion from storage to the compute type and back, and vectors of 16 bytes.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "weft/core/base/dtype.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

// Compute<T> (core/base/dtype.h) is float for the 16-bit floats, T itself otherwise.
template <class T>
__device__ __forceinline__ Compute<T> Widen(T value) {
  if constexpr (std::is_same_v<T, BF16>)
    return __bfloat162float(__ushort_as_bfloat16(value.bits));
  else if constexpr (std::is_same_v<T, F16>)
    return __half2float(__ushort_as_half(value.bits));
  else
    return value;
}

// Rounds to nearest even.
template <class T, class C>
__device__ __forceinline__ T Narrow(C value) {
  if constexpr (std::is_same_v<T, BF16>) {
    BF16 narrow;
    narrow.bits = __bfloat16_as_ushort(__float2bfloat16_rn(float(value)));
    return narrow;
  } else if constexpr (std::is_same_v<T, F16>) {
    F16 narrow;
    narrow.bits = __half_as_ushort(__float2half_rn(float(value)));
    return narrow;
  } else {
    return T(value);
  }
}

// N elements that are moved in one access. The address must be a multiple of their size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};
template <class T>
using Pack16 = Pack<T, kPack<T>>;

inline bool Aligned16(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace weft::cuda
