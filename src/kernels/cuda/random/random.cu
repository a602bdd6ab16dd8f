// Random and Dropout. Numbers depend only on the key, the step and the element's global index (core/base/rng.h).
//
// Each thread takes one Philox block (four numbers, or eight of 16 bits for dropout), or as many blocks as fill two
// vectors of 16 bytes.
#include "weft/core/ops/random.h"

#include "weft/core/base/rng.h"
#include "weft/kernels/common/random_view.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"
#include "weft/kernels/cuda/random/normal.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// The position of a shard's elements in the stream.
struct Stream {
  const int64_t *step, *first_row;  // scalars on the device
  uint64_t key;
  uint64_t blocks_per_first_row;  // Philox blocks per element of dim 0
  int64_t columns;                // local columns of each row
  int head;                       // lanes of the first block before the first local column
  int64_t x_stride;               // of x along a row
  // Operand 0: y, 1: x, 2: the Philox block, 3: the column, each for lane 0 of the block. Each step is one thread's
  // block.
  Walk walk;

  // First returns the number in the stream of a Philox block of the shard; Bits returns the bits of a block of the
  // stream.
  __device__ __forceinline__ uint64_t First(int64_t block) const {
    return uint64_t(*first_row) * blocks_per_first_row + uint64_t(block);
  }
  __device__ __forceinline__ PhiloxBits Bits(uint64_t block) const { return Philox(key, uint64_t(*step), block); }
};

enum Operand { kY, kX, kBlock, kColumn };

// The loops over the Philox blocks of `out`, and the stream without its walk. With vectors the column is not needed,
// because no lane lies outside.
struct StreamPlan {
  Stream stream{};
  Nest nest{kWalked};
  Offsets first{};

  // `words`: elements per Philox block.
  StreamPlan(const KernelCall& call, const TensorView& out, const TensorView& x, int scalars, int words, bool vectors) {
    int last = out.rank - 1;
    DimView row = out.rank ? out.dim(last) : DimView{1, 1, 0, 1, 1};
    int64_t blocks = CeilDiv(row.global, words), scale = blocks;
    stream.x_stride = out.rank ? x.dim(last).stride : 1;
    stream.columns = row.extent;
    stream.head = int(row.offset % words);
    stream.key = uint64_t(call.attrs->Int("key"));
    stream.step = call.in[size_t(scalars)].as<const int64_t>();
    stream.first_row = call.in[size_t(scalars) + 1].as<const int64_t>();
    std::array<Offsets, kMaxRank> strides{};
    first[kBlock] = row.offset / words;
    for (int d = last - 1; d >= 0; d--) {
      strides[size_t(d)] = {out.dim(d).stride, x.dim(d).stride, scale, 0};
      first[kBlock] += out.dim(d).offset * scale;
      if (d == 0) stream.blocks_per_first_row = uint64_t(scale);
      scale *= out.dim(d).global;
    }
    for (int d = 0; d < last; d++) nest.Add(out.dim(d).extent, strides[size_t(d)]);
    nest.Add(CeilDiv(stream.head + row.extent, words), {words, words * stream.x_stride, 1, vectors ? 0 : words});
    nest.Collapse();
  }
  // Returns whether Philox blocks, and the elements of each operand, follow each other without gaps.
  bool Flat(int words) const {
    const Offsets& s = nest.strides[0];
    return nest.rank <= 1 && nest.Count() <= INT32_MAX && s[kY] == words && s[kX] == words && s[kBlock] == 1;
  }
};

template <class Fn>
void Launch(const StreamPlan& plan, const char* name, int per_thread, Fn&& launch) {
  ForEachWalk(plan.nest, plan.first, [&](const Walk& walk) {
    Stream stream = plan.stream;
    stream.walk = walk;
    launch(Blocks(walk.steps, per_thread * kThreads), stream);
    WEFT_CUDA_LAUNCHED(name);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) RandomKernel(const __grid_constant__ Stream stream, bool normal, T* y) {
  uint32_t step = blockIdx.x * uint32_t(kThreads) + threadIdx.x;
  if (step >= stream.walk.steps) return;
  Place at = stream.walk.At(step);
  PhiloxBits bits = stream.Bits(stream.First(at.of[kBlock]));
#pragma unroll 1
  for (int lane = 0; lane < 4; lane++) {
    int64_t i = lane - stream.head, column = at.of[kColumn] + i;
    if (column < 0 || column >= stream.columns) continue;
    y[at.of[kY] + i] = Narrow<T>(normal ? NormalFromBits(bits.lane[lane]) : UniformFromBits(bits.lane[lane]));
  }
}

void Random(const KernelCall& call) {
  const TensorView& out = call.out[0];
  if (out.NumElements() == 0) return;  // an empty shard has no place in the stream
  bool normal = call.attrs->Text("kind") == "normal";
  StreamPlan plan(call, out, out, 0, 4, false);
  Dispatch(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    Launch(plan, "random", 1, [&](unsigned blocks, const Stream& stream) {
      RandomKernel<<<blocks, kThreads, 0, DeviceOf(call).stream()>>>(stream, normal, out.as<T>());
    });
  });
}

// Keeps an element iff its 16 bits reach the threshold, which is below 2^16. The bits are compared in the upper half of
// a word, above 16 other bits that are cleared or do not matter.
template <class T>
struct Drop {
  using C = Compute<T>;
  uint32_t threshold;
  C scale;
  explicit Drop(double p) : threshold(DropoutThreshold(p) << 16), scale(C(DropoutScale(p))) {}
  __device__ __forceinline__ C operator()(C x, const PhiloxBits& bits, int word) const {
    uint32_t lane = bits.lane[word / 2];
    return (word % 2 ? lane : lane << 16) >= threshold ? x * scale : C(0);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(const __grid_constant__ Stream stream, Drop<T> drop, const T* x, T* y) {
  uint32_t step = blockIdx.x * uint32_t(kThreads) + threadIdx.x;
  if (step >= stream.walk.steps) return;
  Place at = stream.walk.At(step);
  PhiloxBits bits = stream.Bits(stream.First(at.of[kBlock]));
#pragma unroll
  for (int word = 0; word < kDropoutWords; word++) {
    int64_t i = word - stream.head, column = at.of[kColumn] + i;
    if (column >= 0 && column < stream.columns)
      y[at.of[kY] + i] = Narrow<T>(drop(Widen(x[at.of[kX] + i * stream.x_stride]), bits, word));
  }
}

// Each thread takes two vectors, which are one or two Philox blocks. The blocks of one thread lie kThreads apart, so
// that a warp reads and writes without gaps. `flat`: x and y are one run of whole Philox blocks.
template <class T>
constexpr int kDropBlocks = 2 * kPack<T> / kDropoutWords;
template <class T, bool flat>
__global__ void __launch_bounds__(kThreads)
    DropoutVectors(const __grid_constant__ Stream stream, Drop<T> drop, const T* x, T* y) {
  constexpr int V = kPack<T>, kVectors = kDropoutWords / V, N = kDropBlocks<T>;
  uint32_t first = blockIdx.x * uint32_t(N * kThreads) + threadIdx.x;
  Vector<T> values[N][kVectors];  // [N, kVectors, V]
  Place at[N];
#pragma unroll
  for (int n = 0; n < N; n++) {
    uint32_t step = first + uint32_t(n * kThreads);
    if (step >= stream.walk.steps) break;
    if constexpr (flat)
      at[n].of[kY] = at[n].of[kX] = int64_t(step) * kDropoutWords, at[n].of[kBlock] = stream.walk.first[kBlock] + step;
    else
      at[n] = stream.walk.At(step);
#pragma unroll
    for (int part = 0; part < kVectors; part++) values[n][part] = Vector<T>::Load(x + at[n].of[kX] + part * V);
  }
#pragma unroll
  for (int n = 0; n < N; n++) {
    if (first + uint32_t(n * kThreads) >= stream.walk.steps) break;
    PhiloxBits bits = stream.Bits(stream.First(at[n].of[kBlock]));
#pragma unroll
    for (int part = 0; part < kVectors; part++) {
      Compute<T> dropped[V];  // [V]
#pragma unroll
      for (int v = 0; v < V; v++) dropped[v] = drop(values[n][part][v], bits, part * V + v);
      Vector<T>::Of(dropped).Store(y + at[n].of[kY] + part * V);
    }
  }
}

// Returns whether all rows begin and end with whole Philox blocks and are aligned for vectors.
bool Vectorises(const TensorView& x, const TensorView& y) {
  return y.rank > 0 && y.dim(y.rank - 1).offset % kDropoutWords == 0 && RowsAligned(x, kDropoutWords) &&
         RowsAligned(y, kDropoutWords);
}

template <class T>
void DropoutAs(const KernelCall& call) {
  const TensorView &x = call.in[0], y = InWhole(call.out[0], *call.attrs);
  bool vectors = kPack<T> >= 4 && Vectorises(x, y);
  Drop<T> drop(call.attrs->Float("p"));
  StreamPlan plan(call, y, x, 1, kDropoutWords, vectors);
  int per_thread = vectors ? kDropBlocks<T> : 1;
  auto kernel = &DropoutKernel<T>;
  if constexpr (kPack<T> >= 4)
    if (vectors) kernel = plan.Flat(kDropoutWords) ? &DropoutVectors<T, true> : &DropoutVectors<T, false>;
  Launch(plan, "dropout", per_thread, [&](unsigned blocks, const Stream& stream) {
    kernel<<<blocks, kThreads, 0, DeviceOf(call).stream()>>>(stream, drop, x.as<const T>(), y.as<T>());
  });
}

void Dropout(const KernelCall& call) {
  const TensorView& out = call.out[0];
  if (!IsFloating(out.dtype)) RefuseType(Op::kDropout, out.dtype, "a float");
  if (out.NumElements() == 0) return;
  if (DropoutThreshold(call.attrs->Float("p")) > UINT16_MAX) return ZeroBox(call, out);  // p rounds to 1
  DispatchFloating(out.dtype, [&](auto zero) { DropoutAs<decltype(zero)>(call); });
}

}  // namespace

void AddRandom(KernelTable& table) {
  SetRun(table, Op::kRandom, &Random);
  SetRun(table, Op::kDropout, &Dropout);
}

}  // namespace weft::cuda
