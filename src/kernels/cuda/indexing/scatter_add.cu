// ScatterAdd. Each element of the result is summed by one thread, in order of the ids that name it, so every run gives
// the same bits. In short lines, the thread of an element's first id looks for the other ids that name it. The ids of
// long lines are sorted by element.
#include "weft/kernels/cuda/embedding/row_sort.cuh"
#include "weft/kernels/cuda/indexing/lines.cuh"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/plan/indexing_sizes.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = kIndexThreads;

// The type in which a sum runs: f64 for f32 and f64, f32 for 16-bit floats, i64 for integers.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, int64_t,
                               std::conditional_t<std::is_same_v<Compute<T>, T>, double, float>>;

template <class T>
__device__ __forceinline__ T Rounded(Sum<T> sum) {
  return Narrow<T>(std::conditional_t<std::is_integral_v<T>, Sum<T>, Compute<T>>(sum));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    AddPairs(const __grid_constant__ Walk walk, const LineIds ids, const T* src, T* y) {
  uint32_t step = blockIdx.x * kThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  int64_t mine = ids.PlaceAt(at.of[1] + at.of[3] * ids.id_step);
  if (mine < 0) return;
  for (int64_t i = 0; i < at.of[3]; i++)
    if (ids.PlaceAt(at.of[1] + i * ids.id_step) == mine) return;
  T* to = y + at.of[0] + mine * ids.full_step;
  Sum<T> sum = Sum<T>(Widen(*to));
  for (int64_t i = at.of[3]; i < ids.length; i++)
    if (ids.PlaceAt(at.of[1] + i * ids.id_step) == mine) sum += Sum<T>(Widen(src[at.of[2] + i * ids.moved_step]));
  *to = Rounded<T>(sum);
}

template <class T>
void AddInPairs(const KernelCall& call) {
  const TensorView &index = call.in[1], &src = call.in[2], &y = call.out[0];
  int dim = IndexedDim(call);
  LineIds ids(dim, y, index, src);
  ForEachWalk(OverIds(dim, y, index, src, /*whole_lines=*/true), {}, [&](const Walk& walk) {
    AddPairs<<<Blocks(walk.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(walk, ids, src.as<const T>(),
                                                                                     y.as<T>());
    WEFT_CUDA_LAUNCHED("scatter_add");
  });
}

// Writes the number of the element of the result that each id names, row-major over extents, or -1.
__global__ void __launch_bounds__(kThreads)
    WriteKeys(const __grid_constant__ Walk walk, const LineIds ids, int32_t* keys) {
  uint32_t step = blockIdx.x * kThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  int64_t place = ids.PlaceAt(at.of[1]);
  keys[step] = place < 0 ? -1 : int32_t(at.of[0] + place * ids.full_step);
}

// The thread of an element's first entry adds up all of its entries. `elements` maps an element's number to its offset
// in the result (operand 0), `positions` an id's position to the offset of its term (operand 2).
template <class T>
__global__ void __launch_bounds__(kThreads)
    AddEntries(const __grid_constant__ Walk elements, const __grid_constant__ Walk positions, const RowEntry* entries,
               uint32_t count, uint32_t num_elements, const T* src, T* y) {
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  uint32_t element = entries[i].row;
  if (element >= num_elements || (i > 0 && entries[i - 1].row == element)) return;
  T* to = y + elements.At(element).of[0];
  Sum<T> sum = Sum<T>(Widen(*to));
  for (; i < count && entries[i].row == element; i++)
    sum += Sum<T>(Widen(src[positions.At(entries[i].position).of[2]]));
  *to = Rounded<T>(sum);
}

// Returns the view of a dense tensor with the extents of y.
TensorView DenseLike(const TensorView& y) {
  TensorView dense = y;
  int64_t stride = 1;
  for (int d = y.rank - 1; d >= 0; d--) {
    dense.dims[size_t(d)].stride = stride;
    stride *= y.dim(d).extent;
  }
  return dense;
}

template <class T>
void AddSorted(const KernelCall& call, const ScatterAddLayout& space) {
  const TensorView &index = call.in[1], &src = call.in[2], &y = call.out[0];
  int dim = IndexedDim(call);
  CudaDevice& device = DeviceOf(call);
  int64_t count = index.NumElements(), num_elements = y.NumElements();
  auto* keys = static_cast<int32_t*>(call.workspace);
  std::byte* sort_space = static_cast<std::byte*>(call.workspace) + space.keys;
  TensorView dense = DenseLike(y);
  Walk positions(OverIds(dim, y, index, src), {});
  Walk numbers(OverIds(dim, dense, index, src), {});
  unsigned blocks = Blocks(uint32_t(count), kThreads);
  WriteKeys<<<blocks, kThreads, 0, device.stream()>>>(numbers, LineIds(dim, dense, index, src), keys);
  WEFT_CUDA_LAUNCHED("scatter_add: keys");
  // The first kernel of a sort may start before the kernel before it ends. The clear stands in between, and it waits.
  RowSort sort(space.sort);
  sort.Clear(device, sort_space);
  TensorView key_view = MakeView(keys, DType::kI32, {count});
  Ids rows(key_view, key_view, DimView{.extent = num_elements, .global = num_elements});
  const RowEntry* entries = sort.Run(device, rows, sort_space).entries;
  const TensorView* views[] = {&y};
  Walk elements(Nest::Over(views), {});
  AddEntries<<<blocks, kThreads, 0, device.stream()>>>(elements, positions, entries, uint32_t(count),
                                                       uint32_t(num_elements), src.as<const T>(), y.as<T>());
  WEFT_CUDA_LAUNCHED("scatter_add: sum");
}

}  // namespace

void ScatterAdd(const KernelCall& call) {
  if (call.out[0].data != call.in[0].data) CopyBox(call, call.out[0], call.in[0]);
  if (call.in[1].NumElements() == 0 || call.out[0].NumElements() == 0) return;
  ScatterAddLayout space(call);
  Dispatch(call.out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    space.sorts ? AddSorted<T>(call, space) : AddInPairs<T>(call);
  });
}

}  // namespace weft::cuda
