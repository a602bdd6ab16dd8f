// Tiles of matrices that Hopper copies by tensor maps, and signals between the warps that copy and those that compute:
// mbarriers, bulk copies, clusters of thread blocks (PTX ISA). Requires code for sm_90a. A shared tile is [rows][64] of
// 16 bits, 128 bytes per row, with the 128-byte swizzle, at a multiple of 1024 bytes.
#pragma once
#include <cuda.h>

#include <span>

#include "weft/kernels/cuda/loops/shared_address.cuh"

namespace weft::cuda {

// ---- tensor maps, which the host makes ----

// Describes a tensor of 16-bit elements in boxes with the 128-byte swizzle. Extents and box begin with the innermost
// dim, whose elements are dense; `strides` has the others' in elements. Places beyond the tensor read as zero.
CUtensorMap TensorMapOf(const void* data, std::span<const int64_t> extents, std::span<const int64_t> strides,
                        std::span<const int> box);

// ---- mbarriers: one parity per use of a stage ----

__device__ __forceinline__ void InitBarrier(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void PublishBarriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// Arrives at the barrier with this address in the block `rank` of the cluster.
__device__ __forceinline__ void ArriveAt(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(SharedAddress(barrier)),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void ArriveExpecting(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void Await(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// ---- clusters ----

__device__ __forceinline__ uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Waits for all threads of the cluster. The threads of a warp may come one by one.
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}

// ---- copies ----

__device__ __forceinline__ void LoadTile(void* to, const CUtensorMap* map, uint64_t* barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(SharedAddress(to)),
      "l"(map), "r"(SharedAddress(barrier)), "r"(column), "r"(row)
      : "memory");
}
// LoadTile of a tensor of four dims.
__device__ __forceinline__ void LoadTile(void* to, const CUtensorMap* map, uint64_t* barrier, int column, int row,
                                         int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(SharedAddress(to)),
      "l"(map), "r"(SharedAddress(barrier)), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}
// Loads consecutive bytes, a multiple of 16 at a multiple of 16.
__device__ __forceinline__ void LoadBytes(void* to, const void* from, uint64_t* barrier, uint32_t bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];" ::"r"(
                   SharedAddress(to)),
               "l"(from), "r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}
// Loads into every block of the cluster whose bit is in `blocks`, to the same address, and completes on its barrier.
__device__ __forceinline__ void LoadTileFor(uint16_t blocks, void* to, const CUtensorMap* map, uint64_t* barrier,
                                            int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4}], [%2], %5;" ::"r"(SharedAddress(to)),
      "l"(map), "r"(SharedAddress(barrier)), "r"(column), "r"(row), "h"(blocks)
      : "memory");
}
// Stores belong to the groups of the thread that starts them.
__device__ __forceinline__ void StoreTile(const void* from, const CUtensorMap* map, int column, int row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(SharedAddress(from)), "r"(column), "r"(row)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until all stores but the last kPending have read their shared memory.
template <int kPending>
__device__ __forceinline__ void AwaitStoresRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
__device__ __forceinline__ void AwaitStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Shows this thread's writes of shared memory to copies and products that begin later.
__device__ __forceinline__ void PublishShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- fragments: [16, 16] of 16 bits as four 8 x 8 matrices, in the order in which the pairs of sums lie ----

// The byte in a tile where this lane's row of the fragment at column 8 * block begins.
__device__ __forceinline__ uint32_t FragmentByte(int lane, int block) {
  return (lane & 15) * 128 + ((block + (lane >> 4)) ^ (lane & 7)) * 16;
}
__device__ __forceinline__ void LoadFragment(uint32_t (&v)[4], const void* tile, int lane, int block) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(SharedAddress(tile) + FragmentByte(lane, block))
               : "memory");
}
__device__ __forceinline__ void StoreFragment(void* tile, int lane, int block, const uint32_t* v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(SharedAddress(tile) +
                                                                                        FragmentByte(lane, block)),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

// ---- registers of a warpgroup ----

template <int kRegisters>
__device__ __forceinline__ void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace weft::cuda
