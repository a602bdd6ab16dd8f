// Rotary embedding. A small kernel computes the angles of the local positions in f64, for all sequences and heads. A
// second kernel rotates: each thread takes the same vector of several heads. Queries and keys are rotated together:
// their angles are computed once, and one launch rotates both.
#include <algorithm>
#include <cmath>

#include "weft/core/ops/attention.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/loops/many.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"
#include "weft/kernels/cuda/plan/rope_sizes.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAngleThreads = kWarp;  // few, so that the f64 work is spread over all multiprocessors
constexpr int kRun = 16;              // positions per thread of the angles kernel
constexpr int HeadsOf(bool across) { return across ? 8 : 4; }  // heads per thread of the rotation

struct Angles {
  double theta, sign;
  RopeScaling scaling;
  int64_t first, positions;  // the first local position, as a global index, and their number
  int half;                  // pairs per head
  const int64_t* offsets;    // per sequence, added to `first`; null: none, and all sequences share their angles
};

// The first position of the run of `position`, which may be negative.
__host__ __device__ inline int64_t RunOf(int64_t position) { return position - (position % kRun + kRun) % kRun; }

// Each thread takes one pair at positions 16 h to 16 h + 15. It computes the angle of 16 h and rotates it for the
// others. An angle depends only on the global position, so every shard rotates by the same numbers.
template <class C>
__global__ void __launch_bounds__(kAngleThreads) AnglesKernel(const Angles angles, C* cosine, C* sine) {
  LetNextStart();
  int64_t at = int64_t(blockIdx.x) * kAngleThreads + threadIdx.x;
  int64_t first = angles.first + (angles.offsets ? angles.offsets[blockIdx.y] : 0);
  int64_t pair = at % angles.half, start = RunOf(first) + at / angles.half * kRun;
  if (start >= first + angles.positions) return;
  int64_t table = int64_t(blockIdx.y) * angles.positions * angles.half;
  double frequency = angles.scaling(std::pow(angles.theta, -2.0 * double(pair) / double(2 * angles.half)));
  double c, s, step_c, step_s;
  sincos(double(start) * frequency, &s, &c);
  sincos(frequency, &step_s, &step_c);
  for (int64_t t = start - first; t < start - first + kRun; t++) {
    if (t >= 0 && t < angles.positions) {
      cosine[table + t * angles.half + pair] = C(c);
      sine[table + t * angles.half + pair] = C(angles.sign * s);
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
  int64_t x_head = 0, y_head = 0;      // strides between the heads of one thread
  int half = 0, heads = 0, apart = 1;  // apart: distance between the heads of one thread, in heads
  Walk walk;                           // operand 0: x, 1: y, 2: place in the angles, 3: 2 * first head + upper half
  uint32_t first = 0;                  // first block
};

template <class T>
struct RopeMany {
  static constexpr int kMost = 4;
  int count = 0;
  uint32_t blocks = 0;
  RopeArgs<T> tensors[kMost];
};

// Each thread takes the same vector of several heads. `across`: a lane has one half of each pair and gets the other
// half from lane ^ half / V, so that a warp reads and writes without gaps. Otherwise a thread has both halves.
template <class T, int V, bool across>
struct Turn {
  using C = Compute<T>;
  static constexpr int kParts = across ? 1 : 2;
  Pack<C, V> cosine, sine;  // [V]; with `across`, the sine of the lower half is negated

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
__global__ void __launch_bounds__(kThreads) RotateKernel(const __grid_constant__ RopeMany<T> many) {
  using Turns = Turn<T, V, across>;
  using Angle = Pack<Compute<T>, V>;
  constexpr int kParts = Turns::kParts, kHeads = HeadsOf(across);
  const RopeArgs<T>& args = EntryOf(many.tensors, many.count, blockIdx.x);
  uint32_t step = (blockIdx.x - args.first) * uint32_t(kThreads) + threadIdx.x;
  bool live = step < args.walk.steps;
  Place at = args.walk.At(live ? step : 0);  // lanes of a warp stay together, because they exchange halves
  int first = int(at.of[3] / 2), heads = live ? (args.heads - first + args.apart - 1) / args.apart : 0;
  Vector<T, V> x[kHeads][kParts];  // [kHeads, kParts, V]
#pragma unroll
  for (int h = 0; h < kHeads; h++)
#pragma unroll
    for (int p = 0; p < kParts; p++)
      if (h < heads) x[h][p] = Vector<T, V>::Load(args.x + at.of[0] + h * args.x_head + p * args.half);
  AwaitPrevious();  // the angles are needed from here on
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

template <class C>
void FillAngles(const KernelCall& call, C* cosine, C* sine) {
  const TensorView& x = call.in[0];
  Angles angles{call.attrs->Float("theta"),
                call.attrs->IntOr("inverse", 0) ? -1.0 : 1.0,
                RopeScalingOf(*call.attrs),
                call.attrs->IntOr("start", 0) + x.dim(1).offset,
                x.dim(1).extent,
                int(HalfOf(call)),
                call.in.size() > 1 ? call.in[1].as<const int64_t>() : nullptr};
  int64_t runs = CeilDiv(angles.first + angles.positions - RunOf(angles.first), kRun);
  if (angles.offsets) runs = CeilDiv(angles.positions, kRun) + 1;  // an offset may be anywhere in a run
  dim3 blocks(unsigned(CeilDiv(runs * angles.half, kAngleThreads)), unsigned(angles.offsets ? x.dim(0).extent : 1));
  AnglesKernel<C><<<blocks, kAngleThreads, 0, DeviceOf(call).stream()>>>(angles, cosine, sine);
  WEFT_CUDA_LAUNCHED("rope: angles");
}

enum class Way : uint8_t { kSingle, kBoth, kAcross };  // single elements; vectors of both halves; vectors of one half

template <class T>
Way WayOf(const KernelCall& call) {
  bool vectors = sizeof(T) <= 4 && HalfOf(call) % kPack<T> == 0 && RowsAligned(call.in[0], kPack<T>) &&
                 RowsAligned(call.out[0], kPack<T>);
  if (!vectors) return Way::kSingle;
  int64_t lanes = HalfOf(call) / kPack<T>;  // lanes per half head
  return lanes <= kWarp / 2 && (lanes & (lanes - 1)) == 0 ? Way::kAcross : Way::kBoth;
}

// Returns the loops over the steps of a call, and completes `args`.
template <class T, int V, bool across>
Nest StepsOf(const KernelCall& call, RopeArgs<T>& args) {
  const TensorView &x = call.in[0], &y = call.out[0];
  int64_t x_head = x.dim(2).stride, y_head = y.dim(2).stride;
  args.x = x.as<const T>(), args.y = y.as<T>();
  args.half = int(HalfOf(call)), args.heads = int(x.dim(2).extent);
  args.apart = int(CeilDiv(args.heads, HeadsOf(across)));
  args.x_head = args.apart * x_head, args.y_head = args.apart * y_head;
  const Offsets halves{args.half, args.half, 0, 1};
  Nest nest(kWalked);
  int64_t table = call.in.size() > 1 ? x.dim(1).extent * args.half : 0;
  nest.Add(x.dim(0).extent, {x.dim(0).stride, y.dim(0).stride, table, 0});
  nest.Add(x.dim(1).extent, {x.dim(1).stride, y.dim(1).stride, args.half, 0});
  nest.Add(args.apart, {x_head, y_head, 0, 2});
  if (across) nest.Add(2, halves);
  nest.Add(args.half / V, {V, V, V, 0});
  nest.Collapse();
  return nest;
}

// Copies the dims of each head that are not rotated.
void CopyRest(const KernelCall& call) {
  TensorView x = call.in[0], y = call.out[0];
  int64_t rotated = 2 * HalfOf(call);
  if (x.data == y.data || rotated == x.dim(3).extent) return;
  for (TensorView* view : {&x, &y}) {
    DimView& head = view->dims[3];
    view->data = view->as<char>() + rotated * head.stride * int64_t(SizeOf(view->dtype));
    head.extent -= rotated;
  }
  CopyBox(call, y, x);
}

// Rotates all calls by the angles of the first.
template <class T, int V, bool across>
void Rotate(std::span<const KernelCall> calls) {
  // Before the angles, because the rotation starts while the kernel before it still runs.
  for (const KernelCall& call : calls) CopyRest(call);
  RopeArgs<T> args;
  auto* cosine = static_cast<Compute<T>*>(calls[0].workspace);  // [T, R/2], or [B, T, R/2] with offsets
  args.cosine = cosine;
  args.sine = cosine + AnglesOf(calls[0]);  // like cosine
  FillAngles(calls[0], cosine, const_cast<Compute<T>*>(args.sine));
  RopeMany<T> many;
  auto flush = [&] {
    if (many.count == 0) return;
    LaunchEarly(DeviceOf(calls[0]), "rope", &RotateKernel<T, V, across>, many.blocks, kThreads, many);
    many.count = 0, many.blocks = 0;
  };
  for (const KernelCall& call : calls)
    ForEachWalk(StepsOf<T, V, across>(call, args), {}, [&](const Walk& walk) {
      args.walk = walk, args.first = many.blocks;
      many.tensors[many.count++] = args;
      many.blocks += Blocks(walk.steps, kThreads);
      if (many.count == RopeMany<T>::kMost) flush();
    });
  flush();
}

template <class T>
void RotateBy(Way way, std::span<const KernelCall> calls) {
  if constexpr (sizeof(T) <= 4) {
    if (way == Way::kAcross) return Rotate<T, kPack<T>, true>(calls);
    if (way == Way::kBoth) return Rotate<T, kPack<T>, false>(calls);
  }
  Rotate<T, 1, false>(calls);
}

// Returns whether b can use the angles of a and be rotated in the same launch.
template <class T>
bool Together(const KernelCall& a, const KernelCall& b) {
  auto alike = [&](auto fact) { return fact(a) == fact(b); };
  return alike([](const KernelCall& c) { return c.in[0].dtype; }) &&
         alike([](const KernelCall& c) { return c.attrs->Float("theta"); }) &&
         alike([](const KernelCall& c) { return RopeScalingOf(*c.attrs); }) &&
         alike([](const KernelCall& c) { return c.attrs->IntOr("inverse", 0); }) &&
         alike([](const KernelCall& c) { return c.attrs->IntOr("start", 0) + c.in[0].dim(1).offset; }) &&
         alike([](const KernelCall& c) { return c.in.size() > 1 ? c.in[1].data : nullptr; }) && alike(&AnglesOf) &&
         alike([](const KernelCall& c) { return c.in[0].dim(1).extent; }) && alike(&HalfOf) && alike(&WayOf<T>);
}

void ManyRope(std::span<const KernelCall> calls) {
  while (!calls.empty()) {
    const KernelCall& call = calls[0];
    const TensorView& x = call.in[0];
    if (!IsFloating(x.dtype)) RefuseType(Op::kRope, x.dtype, "a float");
    size_t count = 1;
    if (x.NumElements() > 0)
      DispatchFloating(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        while (count < calls.size() && Together<T>(call, calls[count])) count++;
        RotateBy<T>(WayOf<T>(call), calls.first(count));
      });
    calls = calls.subspan(count);
  }
}
void Rope(const KernelCall& call) { ManyRope({&call, 1}); }

}  // namespace

void AddRope(KernelTable& table) { SetRun(table, Op::kRope, &Rope, &ManyRope); }

}  // namespace weft::cuda
