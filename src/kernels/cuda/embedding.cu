// Embedding, and the gradient of its table: positions are sorted by row on the device, then each row adds up its own in
// the order of position, so that the bits are the same on every run.
#include "core/ops/embedding.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/index.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kScanThreads = 1024;
constexpr int kShortRow = 64;  // positions that one thread sorts

// Ids as they lie, and where each one's row of the other tensor starts (operand 0: ids, 1: rows).
struct Ids {
  Walk walk;
  const void* data;
  bool wide;         // i64, else i32
  int64_t first, n;  // the rows held here: [first, first + n)

  Ids(const TensorView& ids, const TensorView& rows_of, const DimView& table)
      : data(ids.data), wide(ids.dtype == DType::kI64), first(table.offset), n(table.extent) {
    Nest nest(2);
    for (int d = 0; d < ids.rank; d++) nest.Add(ids.dim(d).extent, {ids.dim(d).stride, rows_of.dim(d).stride});
    nest.Collapse();
    WEFT_CHECK(nest.Count() <= INT32_MAX, "embedding on CUDA: more than 2^31 ids on one device; shard the batch");
    if (nest.Count() > 0)
      walk = Walk(nest, {});
    else
      walk.steps = 0;
  }
  // The local row of an id, -1 where it is not held.
  __device__ __forceinline__ int64_t RowAt(int64_t at) const {
    int64_t id = wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
    id -= first;
    return id >= 0 && id < n ? id : -1;
  }
};

// A warp an id; V elements of storage of T at once.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    Gather(const __grid_constant__ Ids ids, const T* table, int64_t stride, int64_t columns, T* y) {
  uint32_t i = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  if (i >= ids.walk.steps) return;
  Place at = ids.walk.At(i);
  int64_t row = ids.RowAt(at.of[0]);
  const T* from = table + row * stride;
  T* to = y + at.of[1];
  for (int64_t c = threadIdx.x % kWarp * V; c < columns; c += kWarp * V) {
    Pack<T, V> pack{};  // [V]
    if (row >= 0) pack = *reinterpret_cast<const Pack<T, V>*>(from + c);
    *reinterpret_cast<Pack<T, V>*>(to + c) = pack;
  }
}

// May all rows of a view be moved in vectors of V elements?
bool RowsAligned(const TensorView& view, int64_t v) {
  bool aligned = Aligned16(view.data) && view.dim(view.rank - 1).extent % v == 0;
  for (int d = 0; d + 1 < view.rank; d++) aligned &= view.dim(d).stride % v == 0;
  return aligned;
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

// The workspace: how many positions each row has, where they start, how many were placed, and the positions.
struct Sorted {
  uint32_t *start, *placed, *position;  // [V + 1], [V], [N]
};
size_t EmbeddingGradWorkspace(const KernelCall& call) {
  return size_t(2 * call.out[0].dim(0).extent + 1 + call.in[0].NumElements()) * sizeof(uint32_t);
}

// Counting needs no order: integer sums are the same in any.
__global__ void CountRows(const __grid_constant__ Ids ids, uint32_t* start) {
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= ids.walk.steps) return;
  int64_t row = ids.RowAt(ids.walk.At(i).of[0]);
  if (row >= 0) atomicAdd(start + row + 1, 1u);
}

// One block: start[v] becomes the sum of the counts before v.
__global__ void __launch_bounds__(kScanThreads) ScanRows(uint32_t* start, int64_t n) {
  __shared__ uint32_t sums[kScanThreads];
  int64_t each = (n + kScanThreads) / kScanThreads, begin = threadIdx.x * each, end = min(begin + each, n + 1);
  uint32_t total = 0;
  for (int64_t v = begin; v < end; v++) total += start[v];
  sums[threadIdx.x] = total;
  __syncthreads();
  for (int reach = 1; reach < kScanThreads; reach *= 2) {
    uint32_t before = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  uint32_t running = sums[threadIdx.x] - total;
  for (int64_t v = begin; v < end; v++) start[v] = running += start[v];
}

__global__ void PlaceRows(const __grid_constant__ Ids ids, Sorted s) {
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= ids.walk.steps) return;
  int64_t row = ids.RowAt(ids.walk.At(i).of[0]);
  if (row >= 0) s.position[s.start[row] + atomicAdd(s.placed + row, 1u)] = i;
}

// A thread a row: few positions are put in order where they lie.
__global__ void OrderShortRows(Sorted s, int64_t n) {
  int64_t row = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= n) return;
  uint32_t* p = s.position + s.start[row];
  uint32_t count = s.start[row + 1] - s.start[row];
  if (count > kShortRow) return;
  for (uint32_t i = 1; i < count; i++) {
    uint32_t value = p[i], j = i;
    for (; j > 0 && p[j - 1] > value; j--) p[j] = p[j - 1];
    p[j] = value;
  }
}

// A block a row, for rows with many positions: reads all ids in order and keeps its own.
__global__ void __launch_bounds__(kScanThreads) OrderLongRows(const __grid_constant__ Ids ids, Sorted s) {
  __shared__ uint32_t counts[kScanThreads / kWarp];
  for (int64_t row = blockIdx.x; row < ids.n; row += gridDim.x) {
    if (s.start[row + 1] - s.start[row] <= kShortRow) continue;
    uint32_t* to = s.position + s.start[row];
    for (uint32_t base = 0; base < ids.walk.steps; base += kScanThreads) {
      uint32_t i = base + threadIdx.x, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
      bool mine = i < ids.walk.steps && ids.RowAt(ids.walk.At(i).of[0]) == row;
      uint32_t ballot = __ballot_sync(~0u, mine);
      if (lane == 0) counts[warp] = __popc(ballot);
      __syncthreads();
      uint32_t before = __popc(ballot & ((1u << lane) - 1)), all = 0;
      for (uint32_t w = 0; w < kScanThreads / kWarp; w++) {
        if (w < warp) before += counts[w];
        all += counts[w];
      }
      if (mine) to[before] = i;
      to += all;
      __syncthreads();
    }
  }
}

// A block a row and a stretch of columns.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    SumRows(const __grid_constant__ Ids ids, Sorted s, const T* dy, int64_t columns, int64_t stride, T* out) {
  int64_t row = blockIdx.x, c = (int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * V;
  if (c >= columns) return;
  double sum[V] = {};
#pragma unroll 2
  for (uint32_t p = s.start[row]; p < s.start[row + 1]; p++) {
    auto pack = *reinterpret_cast<const Pack<T, V>*>(dy + ids.walk.At(s.position[p]).of[1] + c);  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] += double(Widen(pack.v[v]));
  }
  Pack<T, V> result;  // [V]
#pragma unroll
  for (int v = 0; v < V; v++) result.v[v] = Narrow<T>(Compute<T>(sum[v]));
  *reinterpret_cast<Pack<T, V>*>(out + row * stride + c) = result;
}

Sorted SortByRow(const KernelCall& call, const Ids& ids) {
  uint32_t* start = static_cast<uint32_t*>(call.workspace);
  Sorted s{start, start + ids.n + 1, start + 2 * ids.n + 1};
  CudaDevice& device = DeviceOf(call);
  device.Fill(start, 0, size_t(2 * ids.n + 1) * sizeof(uint32_t));
  if (ids.walk.steps == 0) return s;
  unsigned blocks = Blocks(ids.walk.steps, kThreads);
  CountRows<<<blocks, kThreads, 0, device.stream()>>>(ids, start);
  WEFT_CUDA_LAUNCHED("embedding_grad: count");
  ScanRows<<<1, kScanThreads, 0, device.stream()>>>(start, ids.n);
  WEFT_CUDA_LAUNCHED("embedding_grad: scan");
  PlaceRows<<<blocks, kThreads, 0, device.stream()>>>(ids, s);
  WEFT_CUDA_LAUNCHED("embedding_grad: place");
  OrderShortRows<<<unsigned(CeilDiv(ids.n, kThreads)), kThreads, 0, device.stream()>>>(s, ids.n);
  WEFT_CUDA_LAUNCHED("embedding_grad: order");
  unsigned wide = unsigned(std::min<int64_t>(ids.n, 2 * device.multiprocessors()));
  OrderLongRows<<<wide, kScanThreads, 0, device.stream()>>>(ids, s);
  WEFT_CUDA_LAUNCHED("embedding_grad: order long rows");
  return s;
}

template <class T>
void EmbeddingGradAs(const KernelCall& call) {
  const TensorView &dy = call.in[1], &out = call.out[0];
  if (out.NumElements() == 0) return;
  Ids ids(call.in[0], dy, out.dim(0));
  Sorted s = SortByRow(call, ids);
  constexpr int V = kPack<T>;
  auto launch = [&](auto kernel, int64_t v) {
    int64_t packs = CeilDiv(out.dim(1).extent, v), threads = std::min<int64_t>(RoundUp(packs, kWarp), kThreads);
    dim3 grid(unsigned(out.dim(0).extent), unsigned(CeilDiv(packs, threads)));
    kernel<<<grid, unsigned(threads), 0, DeviceOf(call).stream()>>>(ids, s, dy.as<const T>(), out.dim(1).extent,
                                                                    out.dim(0).stride, out.as<T>());
    WEFT_CUDA_LAUNCHED("embedding_grad");
  };
  if (RowsAligned(dy, V) && RowsAligned(out, V))
    launch(SumRows<T, V>, V);
  else
    launch(SumRows<T, 1>, 1);
}

void EmbeddingGrad(const KernelCall& call) {
  DispatchFloating(call.out[0].dtype, [&](auto zero) { EmbeddingGradAs<decltype(zero)>(call); });
}

}  // namespace

void AddEmbedding(KernelTable& table) {
  table.Add(Op::kEmbedding, {.run = &Embedding});
  table.Add(Op::kEmbeddingGrad, {.run = &EmbeddingGrad, .workspace = &EmbeddingGradWorkspace});
}

}  // namespace weft::cuda
