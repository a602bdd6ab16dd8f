#include "weft/kernels/cuda/loops/copy.h"

#include <algorithm>
#include <cstring>

#include "weft/kernels/cuda/loops/map.cuh"
#include "weft/kernels/cuda/loops/transpose.cuh"

namespace weft::cuda {
namespace {

struct Same {
  template <class Bits>
  __device__ __forceinline__ Bits operator()(Bits a, None, None) const {
    return a;
  }
};

template <class Bits>
struct Constant {
  Bits value;
  __device__ __forceinline__ Bits operator()(None, None, None) const { return value; }
};

// Calls fn with a zero of the unsigned type of that size, because a copy does not depend on the dtype.
template <class Fn>
void DispatchSize(size_t bytes, Fn&& fn) {
  switch (bytes) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    default:
      return fn(uint64_t{});
  }
}

// Returns whether the nest is one contiguous run in each of the first `operands` operands.
bool Contiguous(const Nest& nest, int operands) {
  if (nest.rank > 1) return false;
  for (int o = 0; o < operands; o++)
    if (nest.inner_stride(o) != 1) return false;
  return true;
}

// The arguments of a kernel are at most 4 KiB.
constexpr size_t kMostSingles = 480;
template <class Bits>
struct Singles {
  Bits* to;
  int64_t stride;
  int count = 0;
  const Bits* from[kMostSingles] = {};
};

template <class Bits>
__global__ void GatherSingles(const __grid_constant__ Singles<Bits> singles) {
  int i = int(threadIdx.x);
  if (i < singles.count) singles.to[i * singles.stride] = *singles.from[i];
}

void CopyByKernel(const KernelCall& call, const Nest& nest, const TensorView& to, const TensorView& from) {
  int row = TransposedLoop(nest);
  DispatchSize(SizeOf(to.dtype), [&](auto zero) {
    using Bits = decltype(zero);
    if (row >= 0) return CopyTransposed(call, nest, row, to.as<Bits>(), from.as<const Bits>());
    Map<true, Bits, Bits>(call, "copy", Same{}, to, {&from});
  });
}

}  // namespace

void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from) {
  const TensorView* views[] = {&to, &from};
  Nest nest = Nest::Over(views);
  if (nest.Count() == 0) return;
  if (!Contiguous(nest, 2)) return CopyByKernel(call, nest, to, from);
  DeviceOf(call).Copy(to.data, from.data, size_t(nest.Count()) * SizeOf(to.dtype));
}

void CopyPieces(const KernelCall& call, const TensorView& to, const TensorView& from) {
  const TensorView* views[] = {&to, &from};
  Nest nest = Nest::Over(views);
  if (nest.Count() > 0) CopyByKernel(call, nest, to, from);
}

void CopySingles(const KernelCall& call, const TensorView& to, int64_t stride, std::span<const TensorView> from) {
  DispatchSize(SizeOf(to.dtype), [&](auto zero) {
    using Bits = decltype(zero);
    for (size_t first = 0; first < from.size(); first += kMostSingles) {
      Singles<Bits> singles{.to = to.as<Bits>() + int64_t(first) * stride, .stride = stride};
      for (const TensorView& one : from.subspan(first, std::min(kMostSingles, from.size() - first)))
        singles.from[singles.count++] = one.as<const Bits>();
      GatherSingles<<<1, unsigned(RoundUp(singles.count, kWarp)), 0, DeviceOf(call).stream()>>>(singles);
      WEFT_CUDA_LAUNCHED("copy");
    }
  });
}

void FillBox(const KernelCall& call, const TensorView& to, const void* value) {
  DispatchSize(SizeOf(to.dtype), [&](auto bits) {
    using Bits = decltype(bits);
    std::memcpy(&bits, value, sizeof(Bits));
    Map<true, Bits>(call, "fill", Constant<Bits>{bits}, to, {});
  });
}

void ZeroBox(const KernelCall& call, const TensorView& to) {
  const TensorView* views[] = {&to};
  Nest nest = Nest::Over(views);
  if (Contiguous(nest, 1)) return DeviceOf(call).Fill(to.data, 0, size_t(nest.Count()) * SizeOf(to.dtype));
  const uint64_t zero = 0;
  FillBox(call, to, &zero);
}

}  // namespace weft::cuda
