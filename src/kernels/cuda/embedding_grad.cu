// The gradient of an embedding's table. Positions are sorted by row; a stable sort keeps their order within a row, and
// each row adds up its own in that order, so that the bits are the same on every run.
//
// Text names a few rows very often: long rows are cut into pieces, which are added up side by side before they are
// joined in order.
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "core/ops/embedding.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr uint32_t kPiece = 64;  // positions of a piece; rows of twice as many or more are cut
constexpr int kAcross = 3;       // vectors of a lane

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
  const Span* spans;               // [n]
  void* partial;                   // [N / kPiece, columns] of Sum
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
    spans = static_cast<Span*>(take(size_t(call.out[0].dim(0).extent) * sizeof(Span)));
    size_t sum = call.out[0].dtype == DType::kF32 || call.out[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
    partial = take(count / kPiece * columns * sum);
    scratch = take(scratch_bytes);
  }
};

__global__ void __launch_bounds__(kThreads)
    ListRows(const __grid_constant__ Ids ids, uint32_t* row, uint32_t* position) {
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= ids.walk.steps) return;
  int64_t held = ids.RowAt(ids.walk.At(i).of[0]);
  row[i] = uint32_t(held < 0 ? ids.n : held);
  position[i] = i;
}

// Whoever stands where rows change knows an end and a beginning.
__global__ void __launch_bounds__(kThreads) FindSpans(const uint32_t* row, uint32_t count, uint32_t n, Span* spans) {
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count || row[i] >= n) return;
  if (i == 0 || row[i - 1] != row[i]) spans[row[i]].begin = i;
  if (i + 1 == count || row[i + 1] != row[i]) spans[row[i]].end = i + 1;
}

template <class T>
struct GradArgs {
  Ids ids;
  Sorted sorted;
  const T* dy;
  T* out;
  int64_t columns, stride;
};

// The columns of a lane: kAcross vectors of V, one from every 32. Those past the last one repeat it and are not stored.
template <class T, int V>
struct LaneSums {
  using A = Sum<T>;
  const GradArgs<T>& args;
  int64_t first;
  A sum[kAcross][V] = {};

  __device__ explicit LaneSums(const GradArgs<T>& a)
      : args(a), first((int64_t(blockIdx.y) * kAcross * kWarp + threadIdx.x % kWarp) * V) {}
  __device__ __forceinline__ int64_t Column(int u) const { return first + u * kWarp * V; }
  __device__ __forceinline__ int64_t Clamped(int u) const { return min(Column(u), args.columns - V); }

  // dy at N positions, of which this warp's lanes from `lane` on know the offsets.
  template <int N>
  __device__ __forceinline__ void Add(int64_t offset, int lane) {
    Pack<T, V> packs[N][kAcross];  // [N, kAcross, V]
#pragma unroll
    for (int n = 0; n < N; n++) {
      const T* dy = args.dy + __shfl_sync(~0u, offset, lane + n);
#pragma unroll
      for (int u = 0; u < kAcross; u++) packs[n][u] = *reinterpret_cast<const Pack<T, V>*>(dy + Clamped(u));
    }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int u = 0; u < kAcross; u++)
#pragma unroll
        for (int v = 0; v < V; v++) sum[u][v] += A(Widen(packs[n][u].v[v]));
  }
  // dy at the sorted positions from begin to end, in order, N at once.
  template <int N>
  __device__ __forceinline__ void AddAll(uint32_t begin, uint32_t end) {
    for (; begin < end; begin += kWarp) {
      uint32_t mine = min(begin + threadIdx.x % kWarp, end - 1);
      int64_t offset = args.ids.walk.At(args.sorted.position[mine]).of[1];
      int count = int(min(end - begin, uint32_t(kWarp))), lane = 0;
      for (; lane + N <= count; lane += N) Add<N>(offset, lane);
      for (; lane < count; lane++) Add<1>(offset, lane);
    }
  }
  __device__ __forceinline__ A* Partial(uint32_t piece, int u) const {
    return static_cast<A*>(args.sorted.partial) + piece * args.columns + Column(u);
  }
};

// A warp a piece: the one that begins among the kPiece sorted positions from p kPiece on. As no piece is shorter, the
// last of these positions lies in it; the last piece of a row takes the rest, so that no two begin together.
template <class T, int V>
__global__ void __launch_bounds__(kThreads) SumPieces(const __grid_constant__ GradArgs<T> args, uint32_t pieces) {
  uint32_t p = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  if (p >= pieces) return;
  uint32_t row = args.sorted.row[(p + 1) * kPiece - 1];
  if (row >= args.ids.n) return;
  Span span = args.sorted.spans[row];
  uint32_t before = span.begin / kPiece;
  if (!span.cut() || p < before || p - before >= span.pieces()) return;
  uint32_t begin = span.begin + (p - before) * kPiece,
           end = p - before + 1 == span.pieces() ? span.end : begin + kPiece;
  LaneSums<T, V> sums(args);
  sums.template AddAll<4>(begin, end);
#pragma unroll
  for (int u = 0; u < kAcross; u++)
    if (sums.Column(u) < args.columns)
#pragma unroll
      for (int v = 0; v < V; v++) sums.Partial(p, u)[v] = sums.sum[u][v];
}

template <class T, int V>
__device__ __forceinline__ void JoinPieces(const LaneSums<T, V>& sums, Span span, double (&total)[kAcross][V]) {
  uint32_t first = span.begin / kPiece;
#pragma unroll 2
  for (uint32_t p = first; p < first + span.pieces(); p++)
#pragma unroll
    for (int u = 0; u < kAcross; u++)
      if (sums.Column(u) < sums.args.columns)
#pragma unroll
        for (int v = 0; v < V; v++) total[u][v] += double(sums.Partial(p, u)[v]);
}

// A warp a row: its positions, or its pieces.
template <class T, int V>
__global__ void __launch_bounds__(kThreads, 3) SumRows(const __grid_constant__ GradArgs<T> args) {
  uint32_t row = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  if (row >= args.ids.n) return;
  Span span = args.sorted.spans[row];
  LaneSums<T, V> sums(args);
  if (span.cut()) {
    double total[kAcross][V] = {};
    JoinPieces(sums, span, total);
#pragma unroll
    for (int i = 0; i < kAcross * V; i++) sums.sum[i / V][i % V] = Sum<T>(total[i / V][i % V]);
  } else {
    sums.template AddAll<2>(span.begin, span.end);
  }
#pragma unroll
  for (int u = 0; u < kAcross; u++) {
    if (sums.Column(u) >= args.columns) break;
    Pack<T, V> result;  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) result.v[v] = Narrow<T>(Compute<T>(sums.sum[u][v]));
    *reinterpret_cast<Pack<T, V>*>(args.out + row * args.stride + sums.Column(u)) = result;
  }
}

Sorted SortByRow(const KernelCall& call, const Ids& ids) {
  Workspace space(call);
  CudaDevice& device = DeviceOf(call);
  device.Fill(space.spans, 0, size_t(ids.n) * sizeof(Span));
  uint32_t count = ids.walk.steps;
  cub::DoubleBuffer<uint32_t> row(space.numbers[0], space.numbers[1]), position(space.numbers[2], space.numbers[3]);
  if (count > 0) {
    unsigned blocks = Blocks(count, kThreads);
    ListRows<<<blocks, kThreads, 0, device.stream()>>>(ids, row.Current(), position.Current());
    WEFT_CUDA_LAUNCHED("embedding_grad: list");
    int bits = std::bit_width(uint64_t(ids.n));
    WEFT_CUDA(cub::DeviceRadixSort::SortPairs(space.scratch, space.scratch_bytes, row, position, int(count), 0, bits,
                                              device.stream()));
    FindSpans<<<blocks, kThreads, 0, device.stream()>>>(row.Current(), count, uint32_t(ids.n), space.spans);
    WEFT_CUDA_LAUNCHED("embedding_grad: spans");
  }
  return {row.Current(), position.Current(), space.spans, space.partial};
}

template <class T, int V>
void LaunchSums(const KernelCall& call, const GradArgs<T>& args) {
  cudaStream_t stream = DeviceOf(call).stream();
  unsigned across = unsigned(CeilDiv(args.columns, kAcross * kWarp * V));
  uint32_t pieces = args.ids.walk.steps / kPiece;
  if (pieces > 0) {
    SumPieces<T, V><<<dim3(Blocks(pieces, kWarps), across), kThreads, 0, stream>>>(args, pieces);
    WEFT_CUDA_LAUNCHED("embedding_grad: pieces");
  }
  SumRows<T, V><<<dim3(Blocks(uint32_t(args.ids.n), kWarps), across), kThreads, 0, stream>>>(args);
  WEFT_CUDA_LAUNCHED("embedding_grad");
}

template <class T>
void EmbeddingGradAs(const KernelCall& call) {
  const TensorView &dy = call.in[1], &out = call.out[0];
  if (out.NumElements() == 0) return;
  Ids ids(call.in[0], dy, out.dim(0));
  WEFT_CHECK(ids.n < INT32_MAX, "embedding_grad on CUDA: more than 2^31 rows on one device; shard the table");
  GradArgs<T> args{ids, SortByRow(call, ids), dy.as<const T>(), out.as<T>(), out.dim(1).extent, out.dim(0).stride};
  constexpr int V = kPack<T>;
  RowsAligned(dy, V) && RowsAligned(out, V) ? LaunchSums<T, V>(call, args) : LaunchSums<T, 1>(call, args);
}

}  // namespace

size_t EmbeddingGradWorkspace(const KernelCall& call) { return Workspace(call).bytes; }

void EmbeddingGrad(const KernelCall& call) {
  DispatchFloating(call.out[0].dtype, [&](auto zero) { EmbeddingGradAs<decltype(zero)>(call); });
}

}  // namespace weft::cuda
