// Rotary embedding. A small kernel computes the angles of the positions held, in f64, for all sequences and heads; the
// other one rotates, each thread the same vector of four heads.
#include <cmath>

#include "core/ops/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRun = 16;   // positions of a thread that computes angles
constexpr int kHeads = 4;  // heads of a thread that rotates

struct Angles {
  double theta, sign;
  int64_t first, positions;  // the first global position held, and how many
  int half;                  // pairs of a head
};

// A thread takes one pair at positions 16 h to 16 h + 15: the angle of 16 h is computed, the others follow by turning
// it on. An angle depends on the global position alone, so every shard rotates by the same numbers.
template <class C>
__global__ void __launch_bounds__(kThreads) AnglesKernel(const Angles angles, C* cosine, C* sine) {
  int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  int64_t pair = at % angles.half, start = (angles.first / kRun + at / angles.half) * kRun;
  if (start >= angles.first + angles.positions) return;
  double frequency = std::pow(angles.theta, -2.0 * double(pair) / double(2 * angles.half));
  double c, s, step_c, step_s;
  sincos(double(start) * frequency, &s, &c);
  sincos(frequency, &step_s, &step_c);
  for (int64_t t = start - angles.first; t < start - angles.first + kRun; t++) {
    if (t >= 0 && t < angles.positions) {
      cosine[t * angles.half + pair] = C(c);
      sine[t * angles.half + pair] = C(angles.sign * s);
    }
    double turned = c * step_c - s * step_s;
    s = s * step_c + c * step_s;
    c = turned;
  }
}

template <class T>
struct RopeArgs {
  const T* x = nullptr;
  T* y = nullptr;
  const Compute<T>*cosine = nullptr, *sine = nullptr;
  int64_t x_head = 0, y_head = 0;  // strides of heads
  int half = 0, heads = 0;
  Walk walk;  // operand 0: x, 1: y, 2: place in the angles, 3: first head
};

template <class T, int V>
__global__ void __launch_bounds__(kThreads) RotateKernel(const __grid_constant__ RopeArgs<T> args) {
  using C = Compute<T>;
  uint32_t step = blockIdx.x * uint32_t(kThreads) + threadIdx.x;
  if (step >= args.walk.steps) return;
  Place at = args.walk.At(step);
  int heads = min(kHeads, args.heads - int(at.of[3]));
  Vector<T, V> low[kHeads], high[kHeads];  // [kHeads, V]
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    if (h >= heads) break;
    const T* x = args.x + at.of[0] + h * args.x_head;
    low[h] = Vector<T, V>::Load(x);
    high[h] = Vector<T, V>::Load(x + args.half);
  }
  Pack<C, V> cosine = *reinterpret_cast<const Pack<C, V>*>(args.cosine + at.of[2]);  // [V]
  Pack<C, V> sine = *reinterpret_cast<const Pack<C, V>*>(args.sine + at.of[2]);      // [V]
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    if (h >= heads) break;
    C first[V], second[V];  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) {
      first[v] = low[h][v] * cosine.v[v] - high[h][v] * sine.v[v];
      second[v] = high[h][v] * cosine.v[v] + low[h][v] * sine.v[v];
    }
    T* y = args.y + at.of[1] + h * args.y_head;
    Vector<T, V>::Of(first).Store(y);
    Vector<T, V>::Of(second).Store(y + args.half);
  }
}

int64_t HalfOf(const TensorView& x) { return x.dim(3).extent / 2; }

template <class C>
void FillAngles(const KernelCall& call, C* cosine, C* sine) {
  const TensorView& x = call.in[0];
  Angles angles{call.attrs->Float("theta"), call.attrs->IntOr("inverse", 0) ? -1.0 : 1.0,
                call.attrs->IntOr("start", 0) + x.dim(1).offset, x.dim(1).extent, int(HalfOf(x))};
  int64_t runs = CeilDiv(angles.first + angles.positions, kRun) - angles.first / kRun;
  unsigned blocks = unsigned(CeilDiv(runs * angles.half, kThreads));
  AnglesKernel<C><<<blocks, kThreads, 0, DeviceOf(call).stream()>>>(angles, cosine, sine);
  WEFT_CUDA_LAUNCHED("rope: angles");
}

bool Vectorises(const TensorView& x, int n) {
  if (!Aligned16(x.data) || HalfOf(x) % n != 0) return false;
  for (int d = 0; d < 3; d++)
    if (x.dim(d).stride % n != 0) return false;
  return true;
}

template <class T, int V>
void Rotate(const KernelCall& call, RopeArgs<T> args) {
  const TensorView &x = call.in[0], &y = call.out[0];
  Nest nest(kWalked);
  nest.Add(x.dim(0).extent, {x.dim(0).stride, y.dim(0).stride, 0, 0});
  nest.Add(x.dim(1).extent, {x.dim(1).stride, y.dim(1).stride, args.half, 0});
  nest.Add(CeilDiv(args.heads, kHeads), {kHeads * args.x_head, kHeads * args.y_head, 0, kHeads});
  nest.Add(args.half / V, {V, V, V, 0});
  nest.Collapse();
  ForEachWalk(nest, {}, [&](const Walk& walk) {
    args.walk = walk;
    RotateKernel<T, V><<<Blocks(walk.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(args);
    WEFT_CUDA_LAUNCHED("rope");
  });
}

template <class T>
void RopeAs(const KernelCall& call) {
  const TensorView &x = call.in[0], &y = call.out[0];
  auto* cosine = static_cast<Compute<T>*>(call.workspace);  // [T, D/2]
  auto* sine = cosine + x.dim(1).extent * HalfOf(x);        // [T, D/2]
  FillAngles(call, cosine, sine);
  RopeArgs<T> args;
  args.x = x.as<const T>(), args.y = y.as<T>();
  args.cosine = cosine, args.sine = sine;
  args.x_head = x.dim(2).stride, args.y_head = y.dim(2).stride;
  args.half = int(HalfOf(x)), args.heads = int(x.dim(2).extent);
  if constexpr (sizeof(T) <= 4)
    if (Vectorises(x, kPack<T>) && Vectorises(y, kPack<T>)) return Rotate<T, kPack<T>>(call, args);
  Rotate<T, 1>(call, args);
}

size_t RopeWorkspace(const KernelCall& call) {
  const TensorView& x = call.in[0];
  return 2 * size_t(x.dim(1).extent * HalfOf(x)) * SizeOf(AccumulateType(x.dtype));
}
void Rope(const KernelCall& call) {
  const TensorView& x = call.in[0];
  if (!IsFloating(x.dtype)) RefuseType(Op::kRope, x.dtype, "a float");
  if (x.NumElements() == 0) return;
  DispatchFloating(x.dtype, [&](auto zero) { RopeAs<decltype(zero)>(call); });
}

}  // namespace

void AddRope(KernelTable& table) {
  // In place: a thread reads its pairs before it writes them.
  table.Add(Op::kRope, {.run = &Rope, .workspace = &RopeWorkspace, .in_place = true});
}

}  // namespace weft::cuda
