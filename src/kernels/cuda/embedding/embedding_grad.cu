// The gradient of an embedding's table. Positions are sorted by row. The sort is stable and keeps their order within a
// row, and each row adds up its positions in that order, so every run gives the same bits.
//
// Text names a few rows very often and most rows hardly ever. So work is split by sorted positions, not by rows. A warp
// adds up what begins in its window of kPiece positions: short rows one after the other, with loads in flight across
// the ends of rows. Long rows are cut into pieces, one per window, which are joined in a fixed order at the end.
#include "weft/core/ops/embedding.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/embedding/embedding.cuh"
#include "weft/kernels/cuda/embedding/row_sort.cuh"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr uint32_t kPiece = kEmbeddingPiece;
constexpr int kAtOnce = 8;                      // positions whose vectors a warp has in flight
constexpr int kPiecesAtOnce = 4;                // pieces in flight
constexpr int kEmptyRows = 8;                   // rows that a warp checks for empty ones
constexpr uint32_t kJoiners = 4 * kProcessors;  // blocks that join pieces

// 16-bit values are summed in f32. A sum covers fewer than two pieces, far fewer terms than the 24 bits of f32 can
// resolve.
template <class T>
using Sum = std::conditional_t<sizeof(T) == 2, float, double>;

// A row with many positions is cut into pieces.
__device__ __forceinline__ uint32_t PiecesOf(RowSpan span) { return span.count() / kPiece; }
__device__ __forceinline__ bool IsCut(RowSpan span) { return PiecesOf(span) >= 2; }

struct Sorted {
  const RowEntry* entries = nullptr;            // [N]
  const RowSpan* spans = nullptr;               // [n + 1]
  uint32_t *cut = nullptr, *num_cut = nullptr;  // the rows that are cut, unordered, and their number, initially 0
  void* partial = nullptr;                      // [N / kPiece, columns] of Sum
  uint32_t count = 0, n = 0;

  // For window w: `row`, the row of its first position; `span`, the span of that row; and `start`, the first place from
  // there on at which a held row or a piece begins, or at which all held rows end. The last piece of a row takes the
  // rest. No piece is shorter than a window, so a piece that begins in a window is the last thing to begin there.
  struct Bound {
    uint32_t row, start;
    RowSpan span;
  };
  __device__ __forceinline__ Bound BoundOf(uint32_t w) const {
    uint32_t at = w * kPiece, row = at < count ? entries[at].row : n;
    RowSpan span = spans[row];
    if (row >= n) return {row, span.count() > 0 ? span.begin() : count, span};
    if (!IsCut(span)) return {row, at == span.begin() ? at : span.end, span};
    uint32_t piece = (at - span.begin() + kPiece - 1) / kPiece;
    return {row, piece < PiecesOf(span) ? span.begin() + piece * kPiece : span.end, span};
  }
};

// Out is T, or f32 if T has 16 bits.
template <class T, class Out>
struct GradArgs {
  Ids ids;
  Sorted sorted;
  const T* dy;
  Out* out;
  int64_t columns, stride;
  // Windows, and the groups of 32 vectors into which the columns are split, each taken by a warp.
  uint32_t windows = 0, across = 0;
  uint32_t summing = 0;  // blocks that take windows
};

// Stores V neighbours, 16 bytes per access unless V is 1.
template <int V, class Out>
__device__ __forceinline__ void StoreAll(Out* to, const Compute<Out> (&values)[V]) {
  constexpr int kOnce = V == 1 ? 1 : kPack<Out>;
#pragma unroll
  for (int first = 0; first < V; first += kOnce) {
    Compute<Out> part[kOnce];  // [kOnce]
#pragma unroll
    for (int v = 0; v < kOnce; v++) part[v] = values[first + v];
    Vector<Out, kOnce>::Of(part).Store(to + first);
  }
}

// The sums of a warp: one vector of columns per lane. Lanes past the last column repeat it and store nothing.
template <class T, class Out, int V>
struct LaneSums {
  using A = Sum<T>;
  const GradArgs<T, Out>& args;
  int64_t column;
  A sum[V] = {};

  __device__ __forceinline__ LaneSums(const GradArgs<T, Out>& a, uint32_t group)
      : args(a), column((int64_t(group) * kWarp + threadIdx.x % kWarp) * V) {}

  // Adds dy at up to kAtOnce of `count` positions, whose offsets are held by the lanes from `lane` on. Calls
  // flush(lane) after each of them.
  template <class Flush>
  __device__ __forceinline__ void Add(int64_t offset, int lane, int count, const Flush& flush) {
    const T* dy = args.dy + min(column, args.columns - V);
    Vector<T, V> held[kAtOnce];  // [kAtOnce, V]
#pragma unroll
    for (int n = 0; n < kAtOnce; n++) {
      int64_t at = __shfl_sync(~0u, offset, (lane + n) % kWarp);
      if (n < count) held[n] = Vector<T, V>::Load(dy + at);
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; n++) {
      if (n >= count) break;
#pragma unroll
      for (int v = 0; v < V; v++) sum[v] += A(held[n][v]);
      flush(lane + n);
    }
  }
  // Stores the sums as a row's gradient or as a piece's sum, and clears them.
  __device__ __forceinline__ void Flush(uint32_t row, bool piece, uint32_t window) {
    if (column < args.columns) {
      if (piece) {
        Pack<A, V> result;  // [V]
#pragma unroll
        for (int v = 0; v < V; v++) result.v[v] = sum[v];
        *reinterpret_cast<Pack<A, V>*>(static_cast<A*>(args.sorted.partial) + window * args.columns + column) = result;
      } else {
        Compute<T> result[V];  // [V]
#pragma unroll
        for (int v = 0; v < V; v++) result[v] = Compute<T>(sum[v]);
        StoreAll<V>(args.out + row * args.stride + column, result);
      }
    }
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] = 0;
  }
};

// Writes zeros to those of kEmptyRows rows that have no position.
template <class T, class Out, int V>
__device__ __forceinline__ void ClearRows(const GradArgs<T, Out>& args, uint32_t first) {
  uint32_t lane = threadIdx.x % kWarp, mine = first + lane;
  bool empty = lane < kEmptyRows && mine < args.sorted.n && args.sorted.spans[mine].count() == 0;
  for (uint32_t left = __ballot_sync(~0u, empty); left; left &= left - 1) {
    Out* row = args.out + (first + __ffs(left) - 1) * args.stride;
    for (int64_t c = lane * V; c < args.columns; c += kWarp * V) StoreAll<V>(row + c, {});
  }
}

// Writes zeros to all rows. All its blocks run at once, so the next kernel starts while they run.
template <class T, class Out, int V>
__global__ void __launch_bounds__(kThreads) ClearTable(const __grid_constant__ GradArgs<T, Out> args) {
  LetNextStart();
  for (uint32_t row = blockIdx.x * kWarps + threadIdx.x / kWarp; row < args.sorted.n; row += gridDim.x * kWarps)
    for (int64_t c = threadIdx.x % kWarp * V; c < args.columns; c += kWarp * V)
      StoreAll<V>(args.out + row * args.stride + c, {});
}

// Each warp takes one window and 32 vectors of columns. The positions of a window are adjacent, and a row ends where
// the row number changes. Only the last row of a window can be a piece. The blocks after those that sum clear the empty
// rows.
template <class T, class Out, int V>
__global__ void __launch_bounds__(kThreads, 3) SumWindows(const __grid_constant__ GradArgs<T, Out> args) {
  uint32_t warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp, window = warp / args.across,
           lane = threadIdx.x % kWarp;
  AwaitPrevious();
  LetNextStart();
  if (blockIdx.x >= args.summing) return ClearRows<T, Out, V>(args, (warp - args.summing * kWarps) * kEmptyRows);
  if (window >= args.windows) return;
  const Sorted& sorted = args.sorted;
  Sorted::Bound bound = sorted.BoundOf(window + lane % 2);
  uint32_t start = __shfl_sync(~0u, bound.start, 0), end = __shfl_sync(~0u, bound.start, 1);
  if (start >= end) return;
  // The sum that ends at `end` is a piece if its row is cut. A cut row has at least as many positions as two windows,
  // so it has the first position of this window or of the next.
  bool of_bound = IsCut(bound.span) && bound.span.begin() < end && end <= bound.span.end;
  bool piece = __any_sync(~0u, of_bound);
  LaneSums<T, Out, V> sums(args, warp - window * args.across);
  if (of_bound && bound.span.begin() >= start && warp == window * args.across && lane == 1)  // the row's first piece
    sorted.cut[atomicAdd(sorted.num_cut, 1)] = bound.row;
  for (; start < end; start += kWarp) {
    uint32_t mine = min(start + lane, end - 1);
    auto [row, position] = sorted.entries[mine];
    uint32_t ends = __ballot_sync(~0u, mine + 1 == end || sorted.entries[mine + 1].row != row);
    int64_t offset = args.ids.walk.At(position).of[1];
    int count = int(min(end - start, uint32_t(kWarp)));
    for (int from = 0; from < count; from += kAtOnce)
      sums.Add(offset, from, count - from, [&](int of) {
        if (ends >> of & 1) sums.Flush(__shfl_sync(~0u, row, of), piece && start + uint32_t(of) + 1 == end, window);
      });
  }
}

// Joins the pieces of a cut row for one group of 32 vectors of columns, by one block. Each warp adds up every kWarps-th
// piece.
template <class T, class Out, int V>
__device__ __forceinline__ void JoinPieces(const GradArgs<T, Out>& args, uint32_t row, uint32_t group,
                                           double (&shared)[kWarps][kWarp * V]) {
  using A = Sum<T>;
  RowSpan span = args.sorted.spans[row];
  LaneSums<T, Out, V> lanes(args, group);
  const A* partial = static_cast<const A*>(args.sorted.partial) + span.begin() / kPiece * args.columns;
  uint32_t pieces = PiecesOf(span);
  double total[V] = {};
  for (uint32_t p = threadIdx.x / kWarp; p < pieces; p += kPiecesAtOnce * kWarps) {
    Pack<A, V> packs[kPiecesAtOnce] = {};  // [kPiecesAtOnce, V]
#pragma unroll
    for (uint32_t n = 0; n < kPiecesAtOnce; n++)
      if (p + n * kWarps < pieces && lanes.column < args.columns)
        packs[n] = *reinterpret_cast<const Pack<A, V>*>(partial + (p + n * kWarps) * args.columns + lanes.column);
#pragma unroll
    for (int i = 0; i < kPiecesAtOnce * V; i++) total[i % V] += double(packs[i / V].v[i % V]);
  }
#pragma unroll
  for (int v = 0; v < V; v++) shared[threadIdx.x / kWarp][threadIdx.x % kWarp * V + v] = total[v];
  __syncthreads();
  int64_t column = int64_t(group) * kWarp * V + threadIdx.x;
  if (threadIdx.x < kWarp * V && column < args.columns) {
    double sum = 0;
    for (int w = 0; w < kWarps; w++) sum += shared[w][threadIdx.x];
    args.out[row * args.stride + column] = Narrow<Out>(Compute<Out>(sum));
  }
  __syncthreads();
}

// Joins the pieces of all cut rows.
template <class T, class Out, int V>
__global__ void __launch_bounds__(kThreads) JoinRows(const __grid_constant__ GradArgs<T, Out> args) {
  __shared__ double shared[kWarps][kWarp * V];
  AwaitPrevious();
  for (uint32_t i = blockIdx.x, end = *args.sorted.num_cut * args.across; i < end; i += gridDim.x)
    JoinPieces<T, Out, V>(args, args.sorted.cut[i / args.across], i % args.across, shared);
}

Sorted SortByRow(const KernelCall& call, const EmbeddingGradLayout& space, const Ids& ids) {
  RowSort::Result by_row = RowSort(space.sort).Run(DeviceOf(call), ids, call.workspace);
  std::byte* at = static_cast<std::byte*>(call.workspace);
  return {by_row.entries, by_row.spans,   reinterpret_cast<uint32_t*>(at + space.cut), by_row.zeros, at + space.partial,
          ids.walk.steps, uint32_t(ids.n)};
}

// Few positions leave most rows empty, so all rows are cleared while the sort runs.
template <class T, class Out, int V>
void Launch(const KernelCall& call, GradArgs<T, Out> args) {
  CudaDevice& device = DeviceOf(call);
  EmbeddingGradLayout space(call);
  RowSort(space.sort).Clear(device, call.workspace);
  unsigned clearing = Blocks(args.sorted.n, kWarps * kEmptyRows);
  if (space.sort.alone()) {
    ClearTable<T, Out, V><<<std::min(clearing, 4u * kProcessors), kThreads, 0, device.stream()>>>(args);
    WEFT_CUDA_LAUNCHED("embedding_grad: clear");
    clearing = 0;
  }
  uint32_t count = args.ids.walk.steps;
  if (count == 0) return;
  args.sorted = SortByRow(call, space, args.ids);
  args.across = uint32_t(CeilDiv(args.columns, kWarp * V));
  args.windows = uint32_t(CeilDiv(count, kPiece));
  args.summing = Blocks(args.windows * args.across, kWarps);
  LaunchEarly(device, "embedding_grad: windows", &SumWindows<T, Out, V>, args.summing + clearing, kThreads, args);
  if (uint32_t joiners = std::min(count / (2 * kPiece) * args.across, kJoiners); joiners > 0)
    LaunchEarly(device, "embedding_grad", &JoinRows<T, Out, V>, joiners, kThreads, args);
}

template <class T, class Out>
void EmbeddingGradAs(const KernelCall& call) {
  const TensorView &dy = call.in[1], &out = call.out[0];
  if (out.NumElements() == 0) return;
  Ids ids(call.in[0], dy, out.dim(0));
  WEFT_CHECK(ids.n < INT32_MAX, "embedding_grad on CUDA: more than 2^31 rows on one device; shard the table");
  GradArgs<T, Out> args{.ids = ids,
                        .sorted = {.n = uint32_t(ids.n)},
                        .dy = dy.as<T>(),
                        .out = out.as<Out>(),
                        .columns = out.dim(1).extent,
                        .stride = out.dim(0).stride};
  constexpr int V = sizeof(T) <= 4 ? kPack<T> : 1;
  RowsAligned(dy, V) && RowsAligned(out, V) ? Launch<T, Out, V>(call, args) : Launch<T, Out, 1>(call, args);
}

}  // namespace

void EmbeddingGrad(const KernelCall& call) {
  DispatchFloating(call.in[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (call.out[0].dtype == call.in[1].dtype)
      EmbeddingGradAs<T, T>(call);
    else
      EmbeddingGradAs<T, Compute<T>>(call);
  });
}

}  // namespace weft::cuda
