// Short names for the PTX that products on Hopper need: mbarriers, tensor-map copies and warpgroup products. A shared
// tile is [panel][rows][64] bf16, with panels of 64 columns, 128 bytes wide with a 128-byte swizzle.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>

#include "probe.h"

namespace hopper {

__device__ inline uint32_t Shared(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

// ---- mbarriers: phase-bit semantics, one parity per use of a pipeline stage ----

__device__ inline void InitBarrier(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(Shared(barrier)), "r"(arrivals));
}
__device__ inline void FenceBarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(Shared(barrier)) : "memory");
}
__device__ inline void ArriveExpect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(barrier)), "r"(bytes) : "memory");
}
__device__ inline void Wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(Shared(barrier)),
      "r"(parity)
      : "memory");
}

// ---- copies into shared memory that complete on an mbarrier ----

__device__ inline void CopyTile(void* to, const CUtensorMap* map, uint64_t* barrier, int column, int row, int plane) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(Shared(to)),
      "l"(map), "r"(Shared(barrier)), "r"(column), "r"(row), "r"(plane)
      : "memory");
}
__device__ inline void CopyBytes(void* to, const void* from, uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];" ::"r"(Shared(to)),
      "l"(from), "r"(Shared(barrier)), "r"(bytes)
      : "memory");
}

// ---- warpgroup products ----

// Returns the descriptor of a swizzled tile: the address and the leading and stride byte offsets in units of 16 bytes.
// 1 << 62 means a 128-byte swizzle.
__device__ inline uint64_t Descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes) {
  return uint64_t((Shared(tile) & 0x3ffff) >> 4) | uint64_t(leading_bytes >> 4) << 16 |
         uint64_t(stride_bytes >> 4) << 32 | uint64_t(1) << 62;
}

__device__ inline void Fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void Commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
template <int kRegisters>
__device__ inline void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Operand lists of the accumulator, eight registers per group.
#define WEFT_ACC8(d, i)                                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define WEFT_ACC32(d, i) WEFT_ACC8(d, i), WEFT_ACC8(d, i + 8), WEFT_ACC8(d, i + 16), WEFT_ACC8(d, i + 24)
#define WEFT_NAMES32                                                                                                   \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
  "%31"
#define WEFT_NAMES40 WEFT_NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define WEFT_NAMES64                                                                              \
  WEFT_NAMES40                                                                                    \
  ",%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62," \
  "%63"
// d[64, N] (+)= A[64, 16] B[N, 16]^T, both K-major in shared memory. With `accumulate` 0 it starts from zero.
#define WEFT_PRODUCT_SS(N, names, a_index, b_index, p_index, ...)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_index                                                   \
               ", 0;\n"                                                                                      \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" names "}, " a_index ", " b_index \
               ", p, 1, 1, 0, 0;\n}\n"                                                                       \
               : __VA_ARGS__                                                                                 \
               : "l"(a), "l"(b), "r"(accumulate))

template <int N>
__device__ inline void ProductSS(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 80 || N == 128, "no wrapper for this width");
  if constexpr (N == 64) {
    WEFT_PRODUCT_SS(64, WEFT_NAMES32, "%32", "%33", "%34", WEFT_ACC32(d, 0));
  } else if constexpr (N == 80) {
    WEFT_PRODUCT_SS(80, WEFT_NAMES40, "%40", "%41", "%42", WEFT_ACC32(d, 0), WEFT_ACC8(d, 32));
  } else {
    WEFT_PRODUCT_SS(128, WEFT_NAMES64, "%64", "%65", "%66", WEFT_ACC32(d, 0), WEFT_ACC32(d, 32));
  }
}

// d[64, 128] += A[64, 16] B[16, 128], with A in registers and B's rows as they lie in memory (N contiguous).
__device__ inline void ProductRS(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WEFT_NAMES64
      "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1;\n}\n"
      : WEFT_ACC32(d, 0), WEFT_ACC32(d, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

// An accumulator is in flight until its products are waited for, which the compiler does not know. No use of it may
// move above this call.
template <int N>
__device__ inline void Pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline uint32_t Pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// ---- descriptions of tensors, by the host ----
//   CUtensorMap map = TensorMap<2>(x, {columns, rows}, {64, 128});

// Describes a contiguous tensor, whose first extent is the innermost, in boxes with a 128-byte swizzle. Places beyond
// the tensor read as zero.
template <int kRank>
CUtensorMap TensorMap(const bf16* data, std::array<cuuint64_t, kRank> extents, std::array<cuuint32_t, kRank> box) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  Check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
        "find cuTensorMapEncodeTiled");
  CUtensorMap map;
  std::array<cuuint64_t, kRank> strides;  // of all extents but the first, in bytes
  std::array<cuuint32_t, kRank> steps;
  steps.fill(1);
  cuuint64_t bytes = sizeof(bf16);
  for (int i = 0; i < kRank; ++i) strides[i] = bytes *= extents[i];
  const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<bf16*>(data), extents.data(), strides.data(),
      box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("encode a tensor map: CUresult " + std::to_string(result));
  return map;
}

}  // namespace hopper
