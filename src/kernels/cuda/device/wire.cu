// The bf16 kernels for sums over ranks (core/runtime/wire_math.h): narrow, widen, and add chunks in rank order.
//
// They are bound by memory bandwidth, so each thread moves 8 elements in accesses of 16 bytes. If an address is not
// aligned to 16 bytes, each thread takes one element, so that a warp still reads neighbours.
#include <cuda_bf16.h>

#include <string>

#include "weft/core/base/error.h"
#include "weft/core/host/rounding.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;

using Bits = uint16_t;  // the bits of a bf16

__device__ __forceinline__ uint32_t NarrowPair(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return uint32_t(__bfloat16_as_ushort(pair.x)) | uint32_t(__bfloat16_as_ushort(pair.y)) << 16;
}

template <int V>
__device__ __forceinline__ void Load(const float* from, float (&values)[V]) {
  if constexpr (V == 1) {
    values[0] = *from;
  } else {
    auto* vectors = reinterpret_cast<const float4*>(from);
    float4 a = vectors[0], b = vectors[1];
    values[0] = a.x, values[1] = a.y, values[2] = a.z, values[3] = a.w;
    values[4] = b.x, values[5] = b.y, values[6] = b.z, values[7] = b.w;
  }
}

template <int V>
__device__ __forceinline__ void Load(const Bits* from, float (&values)[V]) {
  if constexpr (V == 1) {
    values[0] = __uint_as_float(uint32_t(*from) << 16);
  } else {
    uint4 words = *reinterpret_cast<const uint4*>(from);
    const uint32_t word[] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int w = 0; w < 4; w++) {
      values[2 * w] = __uint_as_float(word[w] << 16);
      values[2 * w + 1] = __uint_as_float(word[w] & 0xffff0000u);
    }
  }
}

template <int V>
__device__ __forceinline__ void Store(float* to, const float (&values)[V]) {
  if constexpr (V == 1) {
    *to = values[0];
  } else {
    auto* vectors = reinterpret_cast<float4*>(to);
    vectors[0] = make_float4(values[0], values[1], values[2], values[3]);
    vectors[1] = make_float4(values[4], values[5], values[6], values[7]);
  }
}

template <int V>
__device__ __forceinline__ void Store(Bits* to, const float (&values)[V]) {
  if constexpr (V == 1)
    *to = __bfloat16_as_ushort(__float2bfloat16_rn(values[0]));
  else
    *reinterpret_cast<uint4*>(to) = make_uint4(NarrowPair(values[0], values[1]), NarrowPair(values[2], values[3]),
                                               NarrowPair(values[4], values[5]), NarrowPair(values[6], values[7]));
}

// to[i + v] = sum over c of chunks[c * count + i + v], for v < V.
template <int V, class To, class From>
__device__ __forceinline__ void SumAt(To* to, const From* chunks, int64_t num_chunks, int64_t count, int64_t i) {
  float sums[V], terms[V];
  Load(chunks + i, sums);
#pragma unroll 4
  for (int64_t c = 1; c < num_chunks; c++) {
    Load(chunks + c * count + i, terms);
#pragma unroll
    for (int v = 0; v < V; v++) sums[v] += terms[v];
  }
  Store(to + i, sums);
}

// A sum over one chunk narrows or widens it. The last thread adds the elements that do not fill a vector.
template <int V, class To, class From>
__global__ void __launch_bounds__(kThreads)
    SumKernel(To* __restrict__ to, const From* __restrict__ chunks, int64_t num_chunks, int64_t count) {
  int64_t i = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (i + V <= count) return SumAt<V>(to, chunks, num_chunks, count, i);
  for (; i < count; i++) SumAt<1>(to, chunks, num_chunks, count, i);
}

bool Aligned(const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

template <class To, class From>
void LaunchSum(const char* name, cudaStream_t stream, To* to, const From* chunks, int64_t num_chunks, int64_t count) {
  if (count == 0) return;
  auto blocks = [count](int64_t each) { return unsigned(CeilDiv(count, each * kThreads)); };
  bool vectors = Aligned(to) && Aligned(chunks) && (num_chunks == 1 || count % kVector == 0);
  if (vectors)
    SumKernel<kVector><<<blocks(kVector), kThreads, 0, stream>>>(to, chunks, num_chunks, count);
  else
    SumKernel<1><<<blocks(1), kThreads, 0, stream>>>(to, chunks, num_chunks, count);
  WEFT_CUDA_LAUNCHED(name);
}

const Bits* BitsOf(const BF16* at) { return reinterpret_cast<const Bits*>(at); }
Bits* BitsOf(BF16* at) { return reinterpret_cast<Bits*>(at); }

}  // namespace

void CudaDevice::Narrow(BF16* to, const float* from, int64_t count) {
  LaunchSum("narrow to bf16", stream_, BitsOf(to), from, 1, count);
}

void CudaDevice::Widen(float* to, const BF16* from, int64_t count) {
  LaunchSum("widen bf16", stream_, to, BitsOf(from), 1, count);
}

void CudaDevice::SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) {
  constexpr const char* kName = "sum of bf16 chunks";
  if (dtype == DType::kF32)
    return LaunchSum(kName, stream_, static_cast<float*>(to), BitsOf(chunks), num_chunks, count);
  WEFT_CHECK(dtype == DType::kBF16, std::string(kName) + ": expected f32 or bf16, got " + Name(dtype));
  LaunchSum(kName, stream_, static_cast<Bits*>(to), BitsOf(chunks), num_chunks, count);
}

}  // namespace weft::cuda
