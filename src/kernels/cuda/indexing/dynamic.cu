// DynamicSlice and DynamicUpdate: starts are read on the device. Elements are moved in units of up to 16 bytes.
#include <array>
#include <span>

#include "absl/container/inlined_vector.h"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

struct Starts {
  const void* data;
  bool wide;             // starts are i64, otherwise i32
  int64_t last;          // the largest start
  int64_t offset, held;  // of the whole tensor's dim on this rank
  int64_t step;          // the whole tensor's stride along the dim, in units

  // Returns the local index of the window's first element. It may lie outside [0, held).
  __device__ __forceinline__ int64_t At(int64_t at) const {
    int64_t start = wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
    return (start < 0 ? 0 : start > last ? last : start) - offset;
  }
};

// Operands of the walk: 0: the window, 1: the line of the whole tensor, 2: the start, 3: the index in the window.
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    ReadWindow(const __grid_constant__ Walk walk, const Starts starts, const Unit* whole, Unit* window) {
  uint32_t step = blockIdx.x * kThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  int64_t place = starts.At(at.of[2]) + at.of[3];
  bool holds = place >= 0 && place < starts.held;
  window[at.of[0]] = holds ? whole[at.of[1] + place * starts.step] : Unit{};
}

// Windows of equal layouts, which one launch writes: blockIdx.y is their number.
constexpr size_t kMostWindows = 8;
struct Window {
  Starts starts;
  const void* part;
  void* whole;
};
struct Windows {
  std::array<Window, kMostWindows> of;
};
template <class Unit>
__global__ void __launch_bounds__(kThreads)
    WriteWindows(const __grid_constant__ Walk walk, const __grid_constant__ Windows windows) {
  uint32_t step = blockIdx.x * kThreads + threadIdx.x;
  AwaitPrevious();
  LetNextStart();
  if (step >= walk.steps) return;
  const Window& window = windows.of[blockIdx.y];
  Place at = walk.At(step);
  int64_t place = window.starts.At(at.of[2]) + at.of[3];
  if (place >= 0 && place < window.starts.held)
    static_cast<Unit*>(window.whole)[at.of[1] + place * window.starts.step] =
        static_cast<const Unit*>(window.part)[at.of[0]];
}

// Returns the bytes of the largest unit in which rows of both views can be moved. They go along the last dim.
int64_t UnitOf(const TensorView& a, const TensorView& b, int dim) {
  int64_t size = int64_t(SizeOf(a.dtype)), unit = dim == a.rank - 1 ? size : 16;
  auto fits = [&](const TensorView& x) {
    bool ok = reinterpret_cast<uintptr_t>(x.data) % size_t(unit) == 0;
    for (int d = 0; d + 1 < x.rank; d++) ok &= x.dim(d).extent < 2 || x.dim(d).stride * size % unit == 0;
    const DimView& row = x.dim(x.rank - 1);
    return ok && row.extent * size % unit == 0 && row.stride == 1;
  };
  while (unit > size && !(fits(a) && fits(b))) unit /= 2;
  return unit;
}
// Returns the view in units of `factor` elements of the last dim.
TensorView InUnits(TensorView x, int64_t factor) {
  if (factor == 1) return x;
  for (int d = 0; d + 1 < x.rank; d++) x.dims[size_t(d)].stride /= factor;
  x.dims[size_t(x.rank - 1)].extent /= factor;
  return x;
}

template <class Fn>
void DispatchUnit(int64_t bytes, Fn&& fn) {
  switch (bytes) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    case 8:
      return fn(uint64_t{});
    default:
      return fn(uint4{});
  }
}

// The windows of a call, of which one has the whole tensor, the window and its starts.
struct WindowCall {
  TensorView whole, window, start;
  int64_t unit;
  int dim;

  WindowCall(const KernelCall& call, const TensorView& all, const TensorView& part, const TensorView& starts)
      : start(starts), unit(0), dim(int(call.attrs->Int("dim"))) {
    unit = UnitOf(all, part, dim);
    int64_t factor = unit / int64_t(SizeOf(all.dtype));
    whole = InUnits(all, factor), window = InUnits(part, factor);
  }
  // The operands of the walk, as the kernels describe them.
  Nest Loops() const {
    Nest nest(kWalked);
    for (int d = 0; d < window.rank; d++)
      nest.Add(window.dim(d).extent, {window.dim(d).stride, d == dim ? 0 : whole.dim(d).stride,
                                      d < start.rank ? start.dim(d).stride : 0, d == dim ? 1 : 0});
    nest.Collapse();
    return nest;
  }
  Starts StartsOf() const {
    const DimView& along = whole.dim(dim);
    return {start.data,  start.dtype == DType::kI64, along.global - window.dim(dim).global, along.offset, along.extent,
            along.stride};
  }
  bool HasLayoutOf(const WindowCall& other) const {
    Nest mine = Loops(), its = other.Loops();
    return unit == other.unit && mine.rank == its.rank && mine.extents == its.extents && mine.strides == its.strides;
  }
};

void DynamicSlice(const KernelCall& call) {
  WindowCall mine(call, call.in[0], call.out[0], call.in[1]);
  DispatchUnit(mine.unit, [&](auto zero) {
    using Unit = decltype(zero);
    ForEachWalk(mine.Loops(), {}, [&](const Walk& walk) {
      ReadWindow<<<Blocks(walk.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(
          walk, mine.StartsOf(), mine.whole.as<const Unit>(), mine.window.as<Unit>());
      WEFT_CUDA_LAUNCHED("dynamic_slice");
    });
  });
}

// Writes the windows of calls with equal layouts.
void WriteTogether(const KernelCall& call, std::span<const WindowCall> each) {
  Windows windows{};
  for (size_t i = 0; i < each.size(); i++)
    windows.of[i] = {each[i].StartsOf(), each[i].window.data, each[i].whole.data};
  DispatchUnit(each[0].unit, [&](auto zero) {
    ForEachWalk(each[0].Loops(), {}, [&](const Walk& walk) {
      LaunchEarly(DeviceOf(call), "dynamic_update", &WriteWindows<decltype(zero)>,
                  dim3(Blocks(walk.steps, kThreads), unsigned(each.size())), kThreads, walk, windows);
    });
  });
}

// Several updates in one launch, such as those of the keys and the values of a layer.
void DynamicUpdates(std::span<const KernelCall> calls) {
  absl::InlinedVector<WindowCall, kMostWindows> each;
  for (const KernelCall& call : calls) {
    const TensorView& y = call.out[0];
    if (y.data != call.in[0].data) CopyBox(call, y, call.in[0]);
    WindowCall mine(call, y, call.in[1], call.in[2]);
    if (!each.empty() && (each.size() == kMostWindows || !mine.HasLayoutOf(each[0]))) {
      WriteTogether(call, each);
      each.clear();
    }
    each.push_back(mine);
  }
  WriteTogether(calls[0], each);
}
void DynamicUpdate(const KernelCall& call) { DynamicUpdates({&call, 1}); }

}  // namespace

void AddDynamic(KernelTable& table) {
  SetRun(table, Op::kDynamicSlice, &DynamicSlice);
  SetRun(table, Op::kDynamicUpdate, &DynamicUpdate, &DynamicUpdates);
}

}  // namespace weft::cuda
