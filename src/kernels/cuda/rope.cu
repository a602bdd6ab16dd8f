// Rotary embedding. A small kernel computes the angles of the positions held, in f64, for all sequences and heads; the
// other one rotates, each thread the same vector of some heads.
#include <cmath>

#include "core/ops/attention.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAngleThreads = kWarp;  // few, so that the work in f64 is spread over all multiprocessors
constexpr int kRun = 16;              // positions of a thread that computes angles
constexpr int HeadsOf(bool across) { return across ? 8 : 4; }  // heads of a thread that rotates

struct Angles {
  double theta, sign;
  int64_t first, positions;  // the first global position held, and how many
  int half;                  // pairs of a head
};

// A thread takes one pair at positions 16 h to 16 h + 15: the angle of 16 h is computed, the others follow by turning
// it on. An angle depends on the global position alone, so every shard rotates by the same numbers.
template <class C>
__global__ void __launch_bounds__(kAngleThreads) AnglesKernel(const Angles angles, C* cosine, C* sine) {
  int64_t at = int64_t(blockIdx.x) * kAngleThreads + threadIdx.x;
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
  int64_t x_head = 0, y_head = 0;      // strides between the heads of a thread
  int half = 0, heads = 0, apart = 1;  // and how many heads lie between these
  Walk walk;                           // operand 0: x, 1: y, 2: place in the angles, 3: 2 first head + upper half
};

// A thread takes the same vector of several heads. `across`: a lane has one half of a pair and gets the other one from
// lane ^ half / V, so that a warp reads and writes without gaps; else a thread has both.
template <class T, int V, bool across>
struct Turn {
  using C = Compute<T>;
  static constexpr int kParts = across ? 1 : 2;
  Pack<C, V> cosine, sine;  // [V]; the lower half's sine comes negated where across

  __device__ __forceinline__ void operator()(const RopeArgs<T>& args, Vector<T, V> (&x)[kParts]) const {
    C of[kParts][V];  // [kParts, V]
    if constexpr (across) {
      Vector<T, V> other = x[0].FromLane(args.half / V);
#pragma unroll
      for (int v = 0; v < V; v++) of[0][v] = x[0][v] * cosine.v[v] + other[v] * sine.v[v];
    } else {
#pragma unroll
      for (int v = 0; v < V; v++) {
        of[0][v] = x[0][v] * cosine.v[v] - x[1][v] * sine.v[v];
        of[1][v] = x[1][v] * cosine.v[v] + x[0][v] * sine.v[v];
      }
    }
#pragma unroll
    for (int p = 0; p < kParts; p++) x[p] = Vector<T, V>::Of(of[p]);
  }
};

template <class T, int V, bool across>
__global__ void __launch_bounds__(kThreads) RotateKernel(const __grid_constant__ RopeArgs<T> args) {
  using Turns = Turn<T, V, across>;
  using Angle = Pack<Compute<T>, V>;
  constexpr int kParts = Turns::kParts, kHeads = HeadsOf(across);
  uint32_t step = blockIdx.x * uint32_t(kThreads) + threadIdx.x;
  bool live = step < args.walk.steps;
  Place at = args.walk.At(live ? step : 0);  // lanes of a warp stay together: they exchange halves
  int first = int(at.of[3] / 2), heads = live ? (args.heads - first + args.apart - 1) / args.apart : 0;
  Vector<T, V> x[kHeads][kParts];  // [kHeads, kParts, V]
#pragma unroll
  for (int h = 0; h < kHeads; h++)
#pragma unroll
    for (int p = 0; p < kParts; p++)
      if (h < heads) x[h][p] = Vector<T, V>::Load(args.x + at.of[0] + h * args.x_head + p * args.half);
  Turns turn{*reinterpret_cast<const Angle*>(args.cosine + at.of[2]),
             *reinterpret_cast<const Angle*>(args.sine + at.of[2])};
  bool lower = across && at.of[3] % 2 == 0;
#pragma unroll
  for (int v = 0; v < V; v++) turn.sine.v[v] = lower ? -turn.sine.v[v] : turn.sine.v[v];
#pragma unroll
  for (int h = 0; h < kHeads; h++) {
    turn(args, x[h]);
#pragma unroll
    for (int p = 0; p < kParts; p++)
      if (h < heads) x[h][p].Store(args.y + at.of[1] + h * args.y_head + p * args.half);
  }
}

int64_t HalfOf(const TensorView& x) { return x.dim(3).extent / 2; }

template <class C>
void FillAngles(const KernelCall& call, C* cosine, C* sine) {
  const TensorView& x = call.in[0];
  Angles angles{call.attrs->Float("theta"), call.attrs->IntOr("inverse", 0) ? -1.0 : 1.0,
                call.attrs->IntOr("start", 0) + x.dim(1).offset, x.dim(1).extent, int(HalfOf(x))};
  int64_t runs = CeilDiv(angles.first + angles.positions, kRun) - angles.first / kRun;
  unsigned blocks = unsigned(CeilDiv(runs * angles.half, kAngleThreads));
  AnglesKernel<C><<<blocks, kAngleThreads, 0, DeviceOf(call).stream()>>>(angles, cosine, sine);
  WEFT_CUDA_LAUNCHED("rope: angles");
}

bool Vectorises(const TensorView& x, int n) {
  if (!Aligned16(x.data) || HalfOf(x) % n != 0) return false;
  for (int d = 0; d < 3; d++)
    if (x.dim(d).stride % n != 0) return false;
  return true;
}

template <class T, int V, bool across>
void Rotate(const KernelCall& call, RopeArgs<T> args) {
  const TensorView &x = call.in[0], &y = call.out[0];
  int64_t x_head = x.dim(2).stride, y_head = y.dim(2).stride;
  args.apart = int(CeilDiv(args.heads, HeadsOf(across)));
  args.x_head = args.apart * x_head, args.y_head = args.apart * y_head;
  const Offsets halves{args.half, args.half, 0, 1};
  Nest nest(kWalked);
  nest.Add(x.dim(0).extent, {x.dim(0).stride, y.dim(0).stride, 0, 0});
  nest.Add(x.dim(1).extent, {x.dim(1).stride, y.dim(1).stride, args.half, 0});
  nest.Add(args.apart, {x_head, y_head, 0, 2});
  if (across) nest.Add(2, halves);
  nest.Add(args.half / V, {V, V, V, 0});
  nest.Collapse();
  ForEachWalk(nest, {}, [&](const Walk& walk) {
    args.walk = walk;
    RotateKernel<T, V, across><<<Blocks(walk.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(args);
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
  args.half = int(HalfOf(x)), args.heads = int(x.dim(2).extent);
  if constexpr (sizeof(T) <= 4) {
    constexpr int V = kPack<T>;
    int lanes = args.half / V;  // of half a head
    if (Vectorises(x, V) && Vectorises(y, V))
      return lanes <= kWarp / 2 && (lanes & (lanes - 1)) == 0 ? Rotate<T, V, true>(call, args)
                                                              : Rotate<T, V, false>(call, args);
  }
  Rotate<T, 1, false>(call, args);
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
