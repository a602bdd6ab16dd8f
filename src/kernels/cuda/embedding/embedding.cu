// Embedding: copies rows of a table by id. Its gradient is in embedding_grad.cu.
#include "weft/core/ops/embedding.h"

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/embedding/embedding.cuh"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/block.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kHeld = 4;

// Stores data that the cache should evict first.
template <class T, int V>
__device__ __forceinline__ void StoreOnce(T* to, const Pack<T, V>& pack) {
  if constexpr (sizeof(pack) == sizeof(uint4))
    __stcs(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4&>(pack));
  else
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

// Each warp takes one id. It moves V elements of the storage type T per access, with kHeld accesses in flight per
// thread. Results are stored for early eviction, so that the cache keeps as much of the table as it can.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    Gather(const __grid_constant__ Ids ids, const T* table, int64_t stride, int64_t columns, T* y) {
  uint32_t i = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  if (i >= ids.walk.steps) return;
  Place at = ids.walk.At(i);
  int64_t row = ids.RowAt(at.of[0]);
  const T* from = table + row * stride;
  T* to = y + at.of[1];
  constexpr int64_t kStride = kWarp * V;
  for (int64_t c = threadIdx.x % kWarp * V; c < columns; c += kHeld * kStride) {
    Pack<T, V> held[kHeld]{};  // [kHeld, V]
#pragma unroll
    for (int u = 0; u < kHeld; u++)
      if (row >= 0 && c + u * kStride < columns) held[u] = *reinterpret_cast<const Pack<T, V>*>(from + c + u * kStride);
#pragma unroll
    for (int u = 0; u < kHeld; u++)
      if (c + u * kStride < columns) StoreOnce(to + c + u * kStride, held[u]);
  }
}

template <class T>
void GatherAs(const KernelCall& call) {
  const TensorView &table = call.in[0], &out = call.out[0];
  if (out.NumElements() == 0) return;
  Ids ids(call.in[1], out, table.dim(0));
  constexpr int V = kPack<T>;
  unsigned blocks = Blocks(ids.walk.steps, kThreads / kWarp);
  cudaStream_t stream = DeviceOf(call).stream();
  auto launch = [&](auto kernel) {
    kernel<<<blocks, kThreads, 0, stream>>>(ids, table.as<const T>(), table.dim(0).stride, table.dim(1).extent,
                                            out.as<T>());
    WEFT_CUDA_LAUNCHED("embedding");
  };
  if (RowsAligned(table, V) && RowsAligned(out, V))
    launch(Gather<T, V>);
  else
    launch(Gather<T, 1>);
}

void Embedding(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { GatherAs<decltype(zero)>(call); });
}

}  // namespace

void AddEmbedding(KernelTable& table) {
  SetRun(table, Op::kEmbedding, &Embedding);
  SetRun(table, Op::kEmbeddingGrad, &EmbeddingGrad);
}

}  // namespace weft::cuda
