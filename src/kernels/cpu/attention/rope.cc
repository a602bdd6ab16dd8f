// Rotary embedding. Angles are computed in f64 once per call for every local position, and then serve all sequences and
// heads. With offsets, each sequence has angles of its own.
#include <algorithm>
#include <cmath>

#include "weft/core/ops/attention.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scratch.h"

namespace weft::cpu {
namespace {

int64_t HalfOf(const KernelCall& call) { return RotatedDims(*call.attrs, call.in[0].dim(3).extent) / 2; }

// Returns the number of sequences that have angles of their own.
int64_t TablesOf(const KernelCall& call) { return call.in.size() > 1 ? call.in[0].dim(0).extent : 1; }

// cos and sin [T, R/2] per table, and two rows per worker. R is the number of rotated dims.
template <class C>
struct RopeScratch {
  C *cosine, *sine, *rows;
  int64_t slots;
  size_t bytes;
  RopeScratch(const KernelCall& call, void* start) : slots(Threads(call)) {
    const TensorView& x = call.in[0];
    int64_t angles = TablesOf(call) * x.dim(1).extent * HalfOf(call);
    Scratch scratch(start);
    cosine = scratch.Take<C>(angles);
    sine = scratch.Take<C>(angles);
    rows = scratch.Take<C>(slots * 2 * x.dim(3).extent);
    bytes = scratch.used();
  }
};

// Position p is 16 h + l. The angles of 16 h and of l are computed; that of p follows from the addition theorem. An
// angle depends only on the global position, so every shard rotates by the same numbers.
template <class C>
void FillFrequency(double frequency, double sign, int64_t first, int64_t count, int64_t step, C* cosine, C* sine) {
  constexpr int64_t kLow = 16;
  double low_cos[kLow], low_sin[kLow], high_cos = 1, high_sin = 0;
  for (int64_t l = 0; l < kLow; l++) {
    low_cos[l] = std::cos(double(l) * frequency);
    low_sin[l] = std::sin(double(l) * frequency);
  }
  for (int64_t t = 0; t < count; t++) {
    int64_t position = first + t, l = (position % kLow + kLow) % kLow;  // offsets may be negative
    if (t == 0 || l == 0) {
      high_cos = std::cos(double(position - l) * frequency);
      high_sin = std::sin(double(position - l) * frequency);
    }
    cosine[t * step] = C(high_cos * low_cos[l] - high_sin * low_sin[l]);
    sine[t * step] = C(sign * (high_sin * low_cos[l] + high_cos * low_sin[l]));
  }
}

template <class C>
void FillAngles(const KernelCall& call, const RopeScratch<C>& table) {
  const TensorView& x = call.in[0];
  int64_t half = HalfOf(call), first = call.attrs->IntOr("start", 0) + x.dim(1).offset, count = x.dim(1).extent;
  const int64_t* offsets = call.in.size() > 1 ? call.in[1].as<const int64_t>() : nullptr;
  RopeScaling scaling = RopeScalingOf(*call.attrs);
  double theta = call.attrs->Float("theta"), sign = call.attrs->IntOr("inverse", 0) ? -1 : 1;
  ParallelFor(call, half, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      double frequency = scaling(std::pow(theta, -2.0 * double(i) / double(2 * half)));
      for (int64_t b = 0, at = i; b < TablesOf(call); b++, at += count * half)
        FillFrequency(frequency, sign, first + (offsets ? offsets[b] : 0), count, half, table.cosine + at,
                      table.sine + at);
    }
  });
}

// Rotates the first 2 half of `size` dims and copies the others. ivdep, because y may be x itself.
template <class C>
void Rotate(const C* x, const C* cosine, const C* sine, int64_t half, int64_t size, C* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < half; i++) {
    C a = x[i], b = x[i + half];
    y[i] = a * cosine[i] - b * sine[i];
    y[i + half] = b * cosine[i] + a * sine[i];
  }
  if (y != x) std::copy(x + 2 * half, x + size, y + 2 * half);
}

template <class C>
void RopeAs(const KernelCall& call) {
  const TensorView &x = call.in[0], &out = call.out[0];
  int64_t size = x.dim(3).extent, half = HalfOf(call), positions = x.dim(1).extent, heads = x.dim(2).extent;
  RopeScratch<C> scratch(call, call.workspace);
  FillAngles(call, scratch);
  Rows x_at(x, 3), y_at(out, 3);
  Reader<C> in(x);
  Writer<C> y(out);
  int64_t slots = x.NumElements() < 16384 ? 1 : scratch.slots;
  ParallelSlots(call, x_at.count(), slots, [&](int64_t slot, int64_t begin, int64_t end) {
    C *tile_x = scratch.rows + slot * 2 * size, *tile_y = tile_x + size;
    for (int64_t r = begin; r < end; r++) {
      int64_t token = r / heads, t = call.in.size() > 1 ? token : token % positions;
      const C* row = in.Row(x_at.Offset(r), 1, size, tile_x);  // [D]
      C* result = y.Row(y_at.Offset(r), 1, tile_y);            // [D]
      Rotate(row, scratch.cosine + t * half, scratch.sine + t * half, half, size, result);
      y.Done(result, y_at.Offset(r), 1, size);
    }
  });
}

size_t RopeWorkspace(const KernelCall& call) {
  return DispatchCompute(call.in[0].dtype, [&](auto zero) { return RopeScratch<decltype(zero)>(call, nullptr).bytes; });
}
void Rope(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { RopeAs<decltype(zero)>(call); });
}

}  // namespace

void AddRope(KernelTable& table) {
  table.Add(Op::kRope, {.run = &Rope, .workspace = &RopeWorkspace, .slices = true, .in_place = true});
}

}  // namespace weft::cpu
