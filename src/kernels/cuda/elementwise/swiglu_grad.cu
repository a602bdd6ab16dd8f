// The gradient of swiglu(a, b) = silu(a) * b in one pass: da = dy silu'(a) b, db = dy silu(a).

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

struct Tensors {
  const void *a, *b, *dy;
  void *da, *db;
};

// `to` walks da, db and dy; `from` walks a and b. A step is V elements.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    Gradients(const __grid_constant__ Walk to, const __grid_constant__ Walk from, Tensors x) {
  using C = Compute<T>;
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= to.steps) return;
  Place y = to.At(i), at = from.At(i);
  using P = Pack<T, V>;
  P a = *reinterpret_cast<const P*>(static_cast<const T*>(x.a) + at.of[0]);   // [V]
  P b = *reinterpret_cast<const P*>(static_cast<const T*>(x.b) + at.of[1]);   // [V]
  P dy = *reinterpret_cast<const P*>(static_cast<const T*>(x.dy) + y.of[2]);  // [V]
#pragma unroll
  for (int v = 0; v < V; v++) {
    C value = Widen(a.v[v]), g = Widen(dy.v[v]), s = C(1) / (C(1) + exp(-value));
    a.v[v] = Narrow<T>(g * C(Widen(b.v[v])) * s * (C(1) + value * (C(1) - s)));
    b.v[v] = Narrow<T>(g * value * s);
  }
  *reinterpret_cast<P*>(static_cast<T*>(x.da) + y.of[0]) = a;
  *reinterpret_cast<P*>(static_cast<T*>(x.db) + y.of[1]) = b;
}

template <class T, int V>
void Launch(const KernelCall& call, const Nest& nest) {
  Nest to(3), from(2);
  for (int d = 0; d < nest.rank; d++) {
    int64_t n = d == nest.rank - 1 ? V : 1;
    const Offsets& s = nest.strides[size_t(d)];
    to.Add(nest.extents[size_t(d)] / n, {s[0] * n, s[1] * n, s[2] * n});
    from.Add(nest.extents[size_t(d)] / n, {s[3] * n, s[4] * n});
  }
  WEFT_CHECK(to.Count() <= INT32_MAX, "swiglu_grad on CUDA: more than 2^31 vectors on one device; shard the operand");
  Tensors x{call.in[0].data, call.in[1].data, call.in[2].data, call.out[0].data, call.out[1].data};
  Gradients<T, V><<<Blocks(uint32_t(to.Count()), kThreads), kThreads, 0, DeviceOf(call).stream()>>>(Walk(to, {}),
                                                                                                    Walk(from, {}), x);
  WEFT_CUDA_LAUNCHED("swiglu_grad");
}

template <class T>
void SwiGluGradAs(const KernelCall& call) {
  const TensorView* all[] = {&call.out[0], &call.out[1], &call.in[2], &call.in[0], &call.in[1]};
  Nest nest = Nest::Over(all);
  if (nest.Count() == 0) return;
  constexpr int V = kPack<T>;
  bool vectors = nest.rank > 0 && nest.inner_extent() % V == 0;
  for (const TensorView* view : all) vectors &= Aligned16(view->data);
  for (int o = 0; o < nest.operands; o++) {
    vectors &= nest.inner_stride(o) == 1;
    for (int d = 0; d + 1 < nest.rank; d++) vectors &= nest.strides[size_t(d)][size_t(o)] % V == 0;
  }
  vectors ? Launch<T, V>(call, nest) : Launch<T, 1>(call, nest);
}

void SwiGluGrad(const KernelCall& call) {
  DispatchFloating(call.out[0].dtype, [&](auto zero) { SwiGluGradAs<decltype(zero)>(call); });
}

}  // namespace

void AddSwiGluGrad(KernelTable& table) { SetRun(table, Op::kSwiGluGrad, &SwiGluGrad); }

}  // namespace weft::cuda
