// Shared by the kernels of the plain backend: the work of a block of threads on rows of heads.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_rules.cuh"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/loops/block.cuh"

namespace weft::cuda {

inline constexpr int kPlainThreads = 128;
inline constexpr int kPlainWarps = kPlainThreads / kWarp;

template <class C>
__device__ C* SharedStart() {
  extern __shared__ double shared[];
  return reinterpret_cast<C*>(shared);
}

template <class T, class C>
__device__ void LoadRow(const T* row, int D, C* to) {
  for (int d = int(threadIdx.x); d < D; d += kPlainThreads) to[d] = Widen(row[d]);
}

// Returns the dot product of a row in shared memory and one in storage, in every lane of the warp.
template <class T, class C>
__device__ C WarpDot(const C* a, const T* b, int D) {
  C sum = 0;
  for (int d = int(threadIdx.x) % kWarp; d < D; d += kWarp) sum += a[d] * Widen(b[d]);
  return WarpReduce(sum, SumOf());
}

// Sets visible [kPlainThreads] to whether a piece's index is below n and seen. Returns whether any is. All threads of
// the block must call it, and see the result.
template <class Fn>
__device__ __forceinline__ bool AnyVisible(int n, bool* visible, Fn&& sees) {
  int x = int(threadIdx.x);
  bool seen = x < n && sees(x);
  visible[x] = seen;
  return __syncthreads_or(seen);
}

struct PlainPlace {
  int b, i, h;
};
// Returns the indices of block number `block` in [B, heads, rows].
__device__ __forceinline__ PlainPlace PlaceOf(int64_t block, int heads, int rows) {
  return {int(block / rows / heads), int(block % rows), int(block / rows % heads)};
}

// `shared`: the bytes of dynamic shared memory of a block.
template <class Kernel, class... Args>
void LaunchPlain(const KernelCall& call, const char* name, Kernel* kernel, int64_t blocks, size_t shared,
                 Args... args) {
  if (blocks == 0) return;
  AllowAllShared(DeviceOf(call), kernel);
  kernel<<<unsigned(blocks), kPlainThreads, shared, DeviceOf(call).stream()>>>(args...);
  WEFT_CUDA_LAUNCHED(name);
}

}  // namespace weft::cuda
