// The gradient of an embedding's table. Positions are sorted by row; a stable sort keeps their order within a row, and
// each row adds up its own in that order, so that the bits are the same on every run.
//
// Text names a few rows very often and most hardly ever. So work is dealt out by sorted positions, not by rows: a warp
// adds up what begins in its window of kPiece of them, short rows one after the other, with loads under way across the
// ends of rows. Long rows are cut into pieces, one a window, which are joined in order in the end.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "core/ops/embedding.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr uint32_t kPiece = 64;   // positions of a window and of a piece; rows of twice as many or more are cut
constexpr int kAtOnce = 8;        // positions of which a warp has the vectors under way
constexpr int kPiecesAtOnce = 4;  // and pieces
constexpr int kEmptyRows = 8;     // rows that a warp looks at for empty ones
constexpr uint32_t kJoiners = 4 * kProcessors;  // blocks that join pieces

// Sums of 16 bits run in f32: those of a piece, or of less than two, are far shorter than its 24 bits can tell.
template <class T>
using Sum = std::conditional_t<sizeof(T) == 2, float, double>;

// Where a row's positions lie among the sorted ones: [begin, end). Both 0: it has none.
struct Span {
  uint32_t begin, end;
  __device__ __forceinline__ uint32_t count() const { return end - begin; }
  __device__ __forceinline__ uint32_t pieces() const { return count() / kPiece; }
  __device__ __forceinline__ bool cut() const { return pieces() >= 2; }
};

struct Sorted {
  const uint32_t *row, *position;  // [N]; rows that are not held come last, as n
  const Span* spans;               // [n + 1]; the last one: what is not held
  const uint32_t *cut, *num_cut;   // the rows that are cut, in no order, and their number
  void* partial;                   // [N / kPiece, columns] of Sum
  uint32_t count, n;

  // The first place from window w's on where a row or a piece begins that is held, or where all that is held ends. A
  // row's last piece takes the rest; as no piece is shorter than a window, one that begins in a window ends it.
  __device__ __forceinline__ uint32_t StartOf(uint32_t w) const {
    uint32_t at = w * kPiece, of = at < count ? row[at] : n;
    Span span = spans[of];
    if (of >= n) return span.count() > 0 ? span.begin : count;
    if (!span.cut()) return at == span.begin ? at : span.end;
    uint32_t piece = (at - span.begin + kPiece - 1) / kPiece;
    return piece < span.pieces() ? span.begin + piece * kPiece : span.end;
  }
};

// The sort's own scratch. cub asks the GPU; to plan without one: the counts of 256 digits, in each of four passes and
// for each block of keys, of which a GPU's hold more than 4096.
size_t SortBytes(const KernelCall& call, size_t count) {
  if (!call.context->Has(DeviceKind::kCuda)) return (count / 4096 + 8) * 256 * sizeof(uint32_t);
  cub::DoubleBuffer<uint32_t> none(nullptr, nullptr);
  size_t bytes = 0;
  WEFT_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, none, none, int(count)));
  return bytes;
}

// The workspace, cut from its front.
struct Workspace {
  uint32_t* numbers[4];  // [N] each: rows and positions, unsorted and sorted
  Span* spans;
  uint32_t *num_cut, *cut;
  void *partial, *scratch;
  size_t scratch_bytes = 0, bytes = 0;

  explicit Workspace(const KernelCall& call) {
    size_t count = size_t(call.in[0].NumElements()), columns = size_t(call.out[0].dim(1).extent);
    scratch_bytes = SortBytes(call, count);
    auto take = [&](size_t size) {
      uintptr_t at = reinterpret_cast<uintptr_t>(call.workspace) + bytes;
      bytes += (size + 255) / 256 * 256;
      return reinterpret_cast<void*>(at);
    };
    for (uint32_t*& of : numbers) of = static_cast<uint32_t*>(take(count * sizeof(uint32_t)));
    spans = static_cast<Span*>(take(size_t(call.out[0].dim(0).extent + 1) * sizeof(Span)));
    num_cut = static_cast<uint32_t*>(take(sizeof(uint32_t)));
    cut = static_cast<uint32_t*>(take(count / (2 * kPiece) * sizeof(uint32_t)));
    size_t sum = call.out[0].dtype == DType::kF32 || call.out[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
    partial = take(count / kPiece * columns * sum);
    scratch = take(scratch_bytes);
  }
};

// Also clears what FindSpans fills.
__global__ void __launch_bounds__(kThreads)
    ListRows(const __grid_constant__ Ids ids, uint32_t* row, uint32_t* position, Span* spans, uint32_t* num_cut) {
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i == 0) *num_cut = 0;
  if (i <= ids.n) spans[i] = {0, 0};
  if (i >= ids.walk.steps) return;
  int64_t held = ids.RowAt(ids.walk.At(i).of[0]);
  row[i] = uint32_t(held < 0 ? ids.n : held);
  position[i] = i;
}

// Whoever stands where rows change knows an end and a beginning. Rows are listed as they come: that changes who joins
// a row, not how.
__global__ void __launch_bounds__(kThreads)
    FindSpans(const uint32_t* row, uint32_t count, uint32_t n, Span* spans, uint32_t* cut, uint32_t* num_cut) {
  LetNextStart();
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  uint32_t mine = row[i], least = 2 * kPiece - 1;
  if (i + 1 == count || row[i + 1] != mine) spans[mine].end = i + 1;
  if (i > 0 && row[i - 1] == mine) return;
  spans[mine].begin = i;
  if (mine < n && count - i > least && row[i + least] == mine) cut[atomicAdd(num_cut, 1)] = mine;
}

template <class T>
struct GradArgs {
  Ids ids;
  Sorted sorted;
  const T* dy;
  T* out;
  int64_t columns, stride;
  uint32_t windows, across;  // vectors of columns that warps take side by side
};

// A warp's sums: a vector of columns a lane. Lanes past the last column repeat it and store nothing.
template <class T, int V>
struct LaneSums {
  using A = Sum<T>;
  const GradArgs<T>& args;
  int64_t column;
  A sum[V] = {};

  __device__ __forceinline__ LaneSums(const GradArgs<T>& a, uint32_t group)
      : args(a), column((int64_t(group) * kWarp + threadIdx.x % kWarp) * V) {}

  // dy at the `count` positions whose offsets the lanes from `lane` on know; `flush` after each of them.
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
  // To where a row's gradient goes, or a piece's sum; the next one begins.
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
        Vector<T, V>::Of(result).Store(args.out + row * args.stride + column);
      }
    }
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] = 0;
  }
};

// A warp a window and 32 vectors of columns. Its positions lie together, and rows end where their number changes; only
// the last of them can be a piece.
template <class T, int V>
__global__ void __launch_bounds__(kThreads, 3) SumWindows(const __grid_constant__ GradArgs<T> args) {
  uint32_t warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp, window = warp / args.across,
           lane = threadIdx.x % kWarp;
  AwaitPrevious();
  LetNextStart();
  if (window >= args.windows) return;
  const Sorted& sorted = args.sorted;
  uint32_t start = sorted.StartOf(window + lane % 2), end = __shfl_sync(~0u, start, 1);
  start = __shfl_sync(~0u, start, 0);
  if (start >= end) return;
  bool piece = sorted.spans[sorted.row[end - 1]].cut();
  LaneSums<T, V> sums(args, warp - window * args.across);
  for (; start < end; start += kWarp) {
    uint32_t mine = min(start + lane, end - 1), row = sorted.row[mine];
    uint32_t ends = __ballot_sync(~0u, mine + 1 == end || sorted.row[mine + 1] != row);
    int64_t offset = args.ids.walk.At(sorted.position[mine]).of[1];
    int count = int(min(end - start, uint32_t(kWarp)));
    for (int from = 0; from < count; from += kAtOnce)
      sums.Add(offset, from, count - from, [&](int of) {
        if (ends >> of & 1) sums.Flush(__shfl_sync(~0u, row, of), piece && start + uint32_t(of) + 1 == end, window);
      });
  }
}

// A block the 32 vectors of columns of a row that is cut: each warp adds up every kWarps-th piece.
template <class T, int V>
__device__ __forceinline__ void JoinPieces(const GradArgs<T>& args, uint32_t row, uint32_t group,
                                           double (&shared)[kWarps][kWarp * V]) {
  using A = Sum<T>;
  Span span = args.sorted.spans[row];
  LaneSums<T, V> lanes(args, group);
  const A* partial = static_cast<const A*>(args.sorted.partial) + span.begin / kPiece * args.columns;
  double total[V] = {};
  for (uint32_t p = threadIdx.x / kWarp; p < span.pieces(); p += kPiecesAtOnce * kWarps) {
    Pack<A, V> packs[kPiecesAtOnce] = {};  // [kPiecesAtOnce, V]
#pragma unroll
    for (uint32_t n = 0; n < kPiecesAtOnce; n++)
      if (p + n * kWarps < span.pieces() && lanes.column < args.columns)
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
    args.out[row * args.stride + column] = Narrow<T>(Compute<T>(sum));
  }
  __syncthreads();
}

// Zero for those of kEmptyRows rows that have no position.
template <class T, int V>
__device__ __forceinline__ void ClearRows(const GradArgs<T>& args, uint32_t first) {
  uint32_t lane = threadIdx.x % kWarp, mine = first + lane;
  bool empty = lane < kEmptyRows && mine < args.sorted.n && args.sorted.spans[mine].count() == 0;
  for (uint32_t left = __ballot_sync(~0u, empty); left; left &= left - 1) {
    T* row = args.out + (first + __ffs(left) - 1) * args.stride;
    for (int64_t c = lane * V; c < args.columns; c += kWarp * V) Vector<T, V>{}.Store(row + c);
  }
}

// What windows leave: the first `joiners` blocks join rows that are cut, the others clear rows that are empty.
template <class T, int V>
__global__ void __launch_bounds__(kThreads) FinishRows(const __grid_constant__ GradArgs<T> args, uint32_t joiners) {
  __shared__ double shared[kWarps][kWarp * V];
  AwaitPrevious();
  if (blockIdx.x >= joiners)
    return ClearRows<T, V>(args, ((blockIdx.x - joiners) * kWarps + threadIdx.x / kWarp) * kEmptyRows);
  for (uint32_t i = blockIdx.x, end = *args.sorted.num_cut * args.across; i < end; i += joiners)
    JoinPieces<T, V>(args, args.sorted.cut[i / args.across], i % args.across, shared);
}

Sorted SortByRow(const KernelCall& call, const Ids& ids) {
  Workspace space(call);
  cudaStream_t stream = DeviceOf(call).stream();
  uint32_t count = ids.walk.steps, n = uint32_t(ids.n);
  cub::DoubleBuffer<uint32_t> row(space.numbers[0], space.numbers[1]), position(space.numbers[2], space.numbers[3]);
  ListRows<<<Blocks(std::max(count, n + 1), kThreads), kThreads, 0, stream>>>(ids, row.Current(), position.Current(),
                                                                              space.spans, space.num_cut);
  WEFT_CUDA_LAUNCHED("embedding_grad: list");
  if (count > 0) {
    int bits = std::bit_width(uint64_t(ids.n));
    WEFT_CUDA(cub::DeviceRadixSort::SortPairs(space.scratch, space.scratch_bytes, row, position, int(count), 0, bits,
                                              stream));
    FindSpans<<<Blocks(count, kThreads), kThreads, 0, stream>>>(row.Current(), count, n, space.spans, space.cut,
                                                                space.num_cut);
    WEFT_CUDA_LAUNCHED("embedding_grad: spans");
  }
  return {row.Current(), position.Current(), space.spans, space.cut, space.num_cut, space.partial, count, n};
}

template <class T, int V>
void LaunchSums(const KernelCall& call, GradArgs<T> args) {
  CudaDevice& device = DeviceOf(call);
  uint32_t count = args.sorted.count;
  args.across = uint32_t(CeilDiv(args.columns, kWarp * V));
  args.windows = uint32_t(CeilDiv(count, kPiece));
  if (count > 0) {
    LaunchEarly(device, "embedding_grad: windows", &SumWindows<T, V>, Blocks(args.windows * args.across, kWarps),
                kThreads, args);
  }
  uint32_t joiners = std::min(count / (2 * kPiece) * args.across, kJoiners);
  LaunchEarly(device, "embedding_grad", &FinishRows<T, V>, joiners + Blocks(args.sorted.n, kWarps * kEmptyRows),
              kThreads, args, joiners);
}

template <class T>
void EmbeddingGradAs(const KernelCall& call) {
  const TensorView &dy = call.in[1], &out = call.out[0];
  if (out.NumElements() == 0) return;
  Ids ids(call.in[0], dy, out.dim(0));
  WEFT_CHECK(ids.n < INT32_MAX, "embedding_grad on CUDA: more than 2^31 rows on one device; shard the table");
  GradArgs<T> args{ids, SortByRow(call, ids), dy.as<const T>(), out.as<T>(), out.dim(1).extent, out.dim(0).stride, 0,
                   0};
  constexpr int V = sizeof(T) <= 4 ? kPack<T> : 1;
  RowsAligned(dy, V) && RowsAligned(out, V) ? LaunchSums<T, V>(call, args) : LaunchSums<T, 1>(call, args);
}

}  // namespace

size_t EmbeddingGradWorkspace(const KernelCall& call) { return Workspace(call).bytes; }

void EmbeddingGrad(const KernelCall& call) {
  DispatchFloating(call.out[0].dtype, [&](auto zero) { EmbeddingGradAs<decltype(zero)>(call); });
}

}  // namespace weft::cuda
