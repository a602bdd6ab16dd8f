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

__device__ inline bool TryWait(uint64_t* barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n}\n"
      : "=r"(done)
      : "r"(Shared(barrier)), "r"(parity)
      : "memory");
  return done;
}
__device__ inline uint64_t Nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

// Like Wait. After two seconds it writes `where` to `report`, which is memory of the host, and ends the kernel by a
// write to address 0. With a trap in its place, ptxas gives no warpgroup the registers that setmaxnreg asks for.
__device__ inline void WaitOrFail(uint64_t* barrier, uint32_t parity, int4* report, int4 where) {
  if (TryWait(barrier, parity)) return;
  const uint64_t begin = Nanoseconds();
  while (!TryWait(barrier, parity))
    if (Nanoseconds() - begin > 2'000'000'000) {
      *report = where;
      __threadfence_system();
      asm volatile("st.global.u32 [%0], 0;" ::"l"(0ull) : "memory");
    }
}

// A barrier of the block, 1 to 15, for some of its warps: `threads` of them arrive or wait.
__device__ inline void ArriveNamed(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void WaitNamed(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- clusters of thread blocks ----

__device__ inline uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Waits for all threads of the cluster. The threads of a warp may come one by one.
__device__ inline void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}
// Arrives at the barrier with this address in the block `rank` of the cluster.
__device__ inline void ArriveAt(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(Shared(barrier)),
      "r"(rank)
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
__device__ inline void CopyTile(void* to, const CUtensorMap* map, uint64_t* barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(Shared(to)),
      "l"(map), "r"(Shared(barrier)), "r"(column), "r"(row)
      : "memory");
}
// Copies into every block of the cluster whose bit is in `blocks`, to the same address, and completes on its barrier.
__device__ inline void MulticastTile(void* to, const CUtensorMap* map, uint64_t* barrier, int column, int row,
                                     uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4}], [%2], %5;" ::"r"(Shared(to)),
      "l"(map), "r"(Shared(barrier)), "r"(column), "r"(row), "h"(blocks)
      : "memory");
}
__device__ inline void CopyBytes(void* to, const void* from, uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];" ::"r"(Shared(to)),
      "l"(from), "r"(Shared(barrier)), "r"(bytes)
      : "memory");
}

// ---- copies from shared memory, in groups of the thread that starts them ----

__device__ inline void StoreTile(const void* from, const CUtensorMap* map, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(Shared(from)), "r"(column), "r"(row)
               : "memory");
}
__device__ inline void CommitStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all groups but the last kPending have read their shared memory.
template <int kPending>
__device__ inline void WaitStoresRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
__device__ inline void WaitStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Shows this thread's writes of shared memory to copies and products that begin later.
__device__ inline void FenceShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- fragments: [16, 16] bf16 as four 8 x 8 matrices, in the order in which an accumulator's pairs lie ----

// The byte in a shared tile of rows of 128 bytes where this lane's row of the fragment at column 8 * block begins.
__device__ inline uint32_t FragmentByte(int lane, int block) {
  return (lane & 15) * 128 + ((block + (lane >> 4)) ^ (lane & 7)) * 16;
}
__device__ inline void LoadFragment(uint32_t (&v)[4], const void* tile, int lane, int block) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(Shared(tile) + FragmentByte(lane, block))
               : "memory");
}
__device__ inline void StoreFragment(void* tile, int lane, int block, const uint32_t* v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(Shared(tile) +
                                                                                        FragmentByte(lane, block)),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
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
#define WEFT_NAMES128                                                                                                 \
  WEFT_NAMES64                                                                                                        \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91," \
  "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,"  \
  "%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// d[64, N] (+)= A[64, 16] B[N, 16]^T, both K-major in shared memory. With `accumulate` 0 it starts from zero. With
// kRowsOfB, B is [16, N] and N contiguous.
#define WEFT_PRODUCT_SS(N, names, a_index, b_index, p_index, rows_index, ...)                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p_index                                                   \
               ", 0;\n"                                                                                      \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" names "}, " a_index ", " b_index \
               ", p, 1, 1, 0, " rows_index ";\n}\n"                                                          \
               : __VA_ARGS__                                                                                 \
               : "l"(a), "l"(b), "r"(accumulate), "n"(int(kRowsOfB)))

template <int N, bool kRowsOfB = false>
__device__ inline void ProductSS(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {
  static_assert(N == 64 || N == 80 || N == 128 || N == 256, "no wrapper for this width");
  if constexpr (N == 64) {
    WEFT_PRODUCT_SS(64, WEFT_NAMES32, "%32", "%33", "%34", "%35", WEFT_ACC32(d, 0));
  } else if constexpr (N == 80) {
    WEFT_PRODUCT_SS(80, WEFT_NAMES40, "%40", "%41", "%42", "%43", WEFT_ACC32(d, 0), WEFT_ACC8(d, 32));
  } else if constexpr (N == 128) {
    WEFT_PRODUCT_SS(128, WEFT_NAMES64, "%64", "%65", "%66", "%67", WEFT_ACC32(d, 0), WEFT_ACC32(d, 32));
  } else {
    WEFT_PRODUCT_SS(256, WEFT_NAMES128, "%128", "%129", "%130", "%131", WEFT_ACC32(d, 0), WEFT_ACC32(d, 32),
                    WEFT_ACC32(d, 64), WEFT_ACC32(d, 96));
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
__device__ inline float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
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
