// Map: y[i] = fn(a[i], b[i], c[i]) over the box of y, with operands of any strides.
//
// If rows are contiguous and aligned, each thread moves several vectors of 16 bytes. An operand with stride 0 along the
// row (a broadcast) is read once per vector. Everything else goes element by element through the same kernel.
//
//   Map<true, T, T, T>(call, "add", fn, call.out[0], {&call.in[0], &call.in[1]});
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {

struct None {};  // the type of a missing operand

inline constexpr int kMapThreads = 256;
inline constexpr int kSources = kWalked - 1;

struct MapArgs {
  void* y = nullptr;
  const void* x[kSources] = {};
  // Whether the source advances with y along the innermost loop. Otherwise it has stride 0 there; only vectors use
  // this.
  bool unit[kSources] = {};
  Walk walk;  // operand 0 is y; a step is one vector
};

// Shared by all launches of a map: the data, and the nest of y and the sources (y again for missing sources).
struct MapPlan {
  MapArgs args;
  Nest nest{kWalked};
  MapPlan(const TensorView& y, std::span<const TensorView* const> sources);
  // Returns whether the innermost loop can go in steps of `n` elements. `bytes` are the element sizes, that of y first,
  // 0 for missing operands.
  bool Vectorises(int n, const std::array<int, kWalked>& bytes) const;
  // Returns the nest in steps of n elements. The end of a single loop that n does not divide is left out.
  Nest InVectors(int n) const;
};

template <class T>
inline constexpr int kBytes = std::is_same_v<T, None> ? 0 : int(sizeof(T));

template <class T, int V>
__device__ __forceinline__ Pack<T, V> LoadPack(const void* source, int64_t at, bool unit) {
  if constexpr (std::is_same_v<T, None>) {
    return {};
  } else {
    const T* x = static_cast<const T*>(source) + at;
    if (V == 1 || unit) return *reinterpret_cast<const Pack<T, V>*>(x);
    Pack<T, V> pack;  // [V]
    T value = *x;
#pragma unroll
    for (int v = 0; v < V; v++) pack.v[v] = value;
    return pack;
  }
}

// Each thread takes U vectors of V elements. All loads are in flight before the first result is needed.
template <int V, int U, class R, class A, class B, class C, class Fn>
__global__ void __launch_bounds__(kMapThreads) MapKernel(const __grid_constant__ MapArgs args, const Fn fn) {
  Pack<A, V> a[U];  // [U, V]
  Pack<B, V> b[U];  // [U, V]
  Pack<C, V> c[U];  // [U, V]
  int64_t to[U];
  uint32_t first = blockIdx.x * uint32_t(U * kMapThreads) + threadIdx.x, steps = args.walk.steps;
#pragma unroll
  for (int u = 0; u < U; u++) {
    uint32_t step = first + uint32_t(u * kMapThreads);
    if (step >= steps) break;
    Place at = args.walk.At(step);
    to[u] = at.of[0];
    a[u] = LoadPack<A, V>(args.x[0], at.of[1], args.unit[0]);
    b[u] = LoadPack<B, V>(args.x[1], at.of[2], args.unit[1]);
    c[u] = LoadPack<C, V>(args.x[2], at.of[3], args.unit[2]);
  }
#pragma unroll
  for (int u = 0; u < U; u++) {
    if (first + uint32_t(u * kMapThreads) >= steps) break;
    Pack<R, V> y;  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) y.v[v] = fn(a[u].v[v], b[u].v[v], c[u].v[v]);
    *reinterpret_cast<Pack<R, V>*>(static_cast<R*>(args.y) + to[u]) = y;
  }
}

template <int V, int U, class R, class A, class B, class C, class Fn>
void LaunchMap(const KernelCall& call, const char* name, Fn fn, MapArgs args, const Nest& nest, const Offsets& first) {
  ForEachWalk(nest, first, [&](const Walk& walk) {
    args.walk = walk;
    unsigned blocks = Blocks(walk.steps, U * kMapThreads);
    MapKernel<V, U, R, A, B, C><<<blocks, kMapThreads, 0, DeviceOf(call).stream()>>>(args, fn);
    WEFT_CUDA_LAUNCHED(name);
  });
}

// `vectors`: whether to compile the path with vectors. Sources must have the extents of y, and may be y itself.
template <bool vectors, class R, class A = None, class B = None, class C = None, class Fn>
void Map(const KernelCall& call, const char* name, Fn fn, const TensorView& y,
         std::initializer_list<const TensorView*> sources) {
  constexpr int kLargest = std::max({kBytes<R>, kBytes<A>, kBytes<B>, kBytes<C>});
  constexpr int V = 16 / kLargest, kSingles = 8 / kLargest;
  MapPlan plan(y, sources);
  Offsets first{};
  if constexpr (vectors) {
    if (plan.Vectorises(V, {kBytes<R>, kBytes<A>, kBytes<B>, kBytes<C>})) {
      LaunchMap<V, 2, R, A, B, C>(call, name, fn, plan.args, plan.InVectors(V), first);
      if (plan.nest.rank > 1 || plan.nest.inner_extent() % V == 0) return;
      // The end of a single row, shorter than a vector.
      int64_t done = plan.nest.inner_extent() / V * V;
      for (size_t o = 0; o < size_t(kWalked); o++) first[o] = done * plan.nest.inner_stride(int(o));
      plan.nest.extents[0] -= done;
    }
  }
  LaunchMap<1, kSingles, R, A, B, C>(call, name, fn, plan.args, plan.nest, first);
}

}  // namespace weft::cuda
