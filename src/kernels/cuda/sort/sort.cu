// Sort, TopK and CumMax. A block sorts a tile of a line by a bitonic network (Batcher, "Sorting networks and their
// applications", 1968). Then neighbouring runs are merged: each entry finds its place in the other run by bisection. No
// two entries are equal, because the index is part of an entry, so equal values keep their order.
#include "weft/core/ops/sort.h"

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/plan/indexing_sizes.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class K>
struct Entry {
  K key;
  uint32_t index;
  __device__ __forceinline__ bool operator<(const Entry& o) const {
    return key < o.key || (key == o.key && index < o.index);
  }
};

// Returns an integer whose order is that of the values. NaN is the largest value, and -0 equals 0.
template <class T>
__device__ __forceinline__ Key<T> KeyOf(T value, bool descending) {
  using K = Key<T>;
  constexpr K kTop = K(1) << (8 * sizeof(K) - 1);
  K key;
  if constexpr (std::is_integral_v<T>) {
    key = std::is_signed_v<T> ? K(value) ^ kTop : K(value);
  } else {
    Compute<T> wide = Widen(value);
    if (wide == 0) wide = 0;  // drops the sign
    if constexpr (sizeof(K) == 8)
      key = K(__double_as_longlong(wide));
    else
      key = __float_as_uint(wide);
    key = wide != wide ? ~K(0) : key & kTop ? ~key : key | kTop;
  }
  return descending ? ~key : key;
}

// One block sorts one tile of one line. Operand 0 of the walk is the line.
template <class T>
__global__ void SortTiles(const __grid_constant__ Walk lines, const T* x, int64_t step, uint32_t length, uint32_t tile,
                          uint32_t tiles, bool descending, Entry<Key<T>>* out) {
  using E = Entry<Key<T>>;
  extern __shared__ uint64_t shared[];
  E* entries = reinterpret_cast<E*>(shared);  // [tile]
  uint32_t line = blockIdx.x / tiles, first = blockIdx.x % tiles * tile;
  const T* from = x + lines.At(line).of[0];
  for (uint32_t i = threadIdx.x; i < tile; i += blockDim.x) {
    bool inside = first + i < length;
    entries[i] = inside ? E{KeyOf(from[int64_t(first + i) * step], descending), first + i}
                        : E{Key<T>(~Key<T>(0)), ~0u};  // entries past the end come last
  }
  for (uint32_t size = 2; size <= tile; size *= 2)
    for (uint32_t apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      uint32_t low = 2 * threadIdx.x - (threadIdx.x & (apart - 1)), high = low + apart;  // blockDim.x is tile / 2
      bool up = (low & size) == 0;
      E a = entries[low], b = entries[high];
      if ((b < a) == up) {
        entries[low] = b;
        entries[high] = a;
      }
    }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < tile && first + i < length; i += blockDim.x)
    out[int64_t(line) * length + first + i] = entries[i];
}

// Merges pairs of sorted runs of `width` entries in every line.
template <class E>
__global__ void __launch_bounds__(kThreads)
    MergeRuns(const E* from, E* to, int64_t count, uint32_t length, uint32_t width) {
  int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  int64_t line = i / length * length;
  uint32_t at = uint32_t(i - line), pair = at / (2 * width) * (2 * width);
  bool left = at - pair < width;
  uint32_t begin = min(left ? pair + width : pair, length), end = min(left ? pair + 2 * width : pair + width, length);
  E mine = from[i];
  uint32_t low = begin, high = end;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (from[line + middle] < mine)
      low = middle + 1;
    else
      high = middle;
  }
  to[line + pair + (at - pair - (left ? 0 : width)) + (low - begin)] = mine;
}

struct Steps {
  int64_t x, values, indices;  // strides along the dim
};
// Operands of the walk: the lines of x, values and indices.
template <class T>
__global__ void __launch_bounds__(kThreads)
    StoreSorted(const __grid_constant__ Walk lines, const Entry<Key<T>>* entries, const T* x, T* values,
                int64_t* indices, Steps steps, int64_t count, uint32_t length, uint32_t kept) {
  int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  uint32_t line = uint32_t(i / kept), at = uint32_t(i % kept);
  Place place = lines.At(line);
  uint32_t index = entries[int64_t(line) * length + at].index;
  values[place.of[1] + at * steps.values] = x[place.of[0] + index * steps.x];
  indices[place.of[2] + at * steps.indices] = index;
}

int DimOf(const KernelCall& call) { return int(call.attrs->Int("dim")); }

// One step for each line of the dim. Operands: x, values, indices.
Nest LinesOf(const KernelCall& call) {
  Nest lines(3);
  const TensorView &x = call.in[0], &values = call.out[0], &indices = call.out[1];
  for (int d = 0; d < x.rank; d++)
    if (d != DimOf(call)) lines.Add(x.dim(d).extent, {x.dim(d).stride, values.dim(d).stride, indices.dim(d).stride});
  lines.Collapse();
  return lines;
}
Steps StepsOf(const KernelCall& call) {
  int dim = DimOf(call);
  return {call.in[0].dim(dim).stride, call.out[0].dim(dim).stride, call.out[1].dim(dim).stride};
}

template <class T>
void SortAs(const KernelCall& call, bool descending) {
  using E = Entry<Key<T>>;
  SortLayout space(call);
  int64_t count = space.lines * space.length, kept = call.out[0].dim(DimOf(call)).extent;
  if (count == 0 || kept == 0) return;
  WEFT_CHECK(space.lines * space.tiles <= INT32_MAX && space.length <= INT32_MAX,
             "sort on CUDA: expected fewer than 2^31 tiles, and elements in a line; shard the operand");
  cudaStream_t stream = DeviceOf(call).stream();
  Walk lines(LinesOf(call), {});
  Steps steps = StepsOf(call);
  const T* x = call.in[0].as<const T>();
  char* at = static_cast<char*>(call.workspace);
  E *from = reinterpret_cast<E*>(at), *to = reinterpret_cast<E*>(at + space.array);
  SortTiles<T>
      <<<unsigned(space.lines * space.tiles), unsigned(space.tile / 2), size_t(space.tile) * sizeof(E), stream>>>(
          lines, x, steps.x, uint32_t(space.length), uint32_t(space.tile), uint32_t(space.tiles), descending, from);
  WEFT_CUDA_LAUNCHED("sort: tiles");
  for (int64_t width = space.tile; width < space.length; width *= 2) {
    MergeRuns<<<unsigned(CeilDiv(count, kThreads)), kThreads, 0, stream>>>(from, to, count, uint32_t(space.length),
                                                                           uint32_t(width));
    WEFT_CUDA_LAUNCHED("sort: merge");
    std::swap(from, to);
  }
  StoreSorted<T><<<unsigned(CeilDiv(space.lines * kept, kThreads)), kThreads, 0, stream>>>(
      lines, from, x, call.out[0].as<T>(), call.out[1].as<int64_t>(), steps, space.lines * kept, uint32_t(space.length),
      uint32_t(kept));
  WEFT_CUDA_LAUNCHED("sort: store");
}

void Sort(const KernelCall& call) {
  bool descending = call.attrs->IntOr("descending", 0);
  Dispatch(call.in[0].dtype, [&](auto zero) { SortAs<decltype(zero)>(call, descending); });
}
void TopK(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { SortAs<decltype(zero)>(call, true); });
}

// Each thread takes one line, in order.
template <class T>
__global__ void __launch_bounds__(kThreads) CumMaxLines(const __grid_constant__ Walk lines, const T* x, T* values,
                                                        int64_t* indices, Steps steps, int64_t length) {
  uint32_t line = blockIdx.x * kThreads + threadIdx.x;
  if (line >= lines.steps) return;
  Place at = lines.At(line);
  Key<T> largest = 0;
  T value{};
  int64_t index = 0;
  for (int64_t i = 0; i < length; i++) {
    T next = x[at.of[0] + i * steps.x];
    if (Key<T> key = KeyOf(next, false); i == 0 || key >= largest) {
      largest = key;
      value = next;
      index = i;
    }
    values[at.of[1] + i * steps.values] = value;
    indices[at.of[2] + i * steps.indices] = index;
  }
}
template <class T>
void CumMaxAs(const KernelCall& call) {
  int64_t length = call.in[0].dim(DimOf(call)).extent;
  ForEachWalk(LinesOf(call), {}, [&](const Walk& lines) {
    CumMaxLines<<<Blocks(lines.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(
        lines, call.in[0].as<const T>(), call.out[0].as<T>(), call.out[1].as<int64_t>(), StepsOf(call), length);
    WEFT_CUDA_LAUNCHED("cum_max");
  });
}
void CumMax(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { CumMaxAs<decltype(zero)>(call); });
}

}  // namespace

void AddSort(KernelTable& table) {
  SetRun(table, Op::kSort, &Sort);
  SetRun(table, Op::kTopK, &TopK);
  SetRun(table, Op::kCumMax, &CumMax);
}

}  // namespace weft::cuda
