// Attention and its gradient as a composition of plain ops that keeps all scores, in any precision. In f64 it is the
// truth. In f32 it is the rounding model: it rounds what a kernel for tensor cores must round to the operands' type or
// to TF32, so its error is the one that the type itself causes.
//
// It runs on the device under test. It takes memory quadratic in the sequence length, but no intermediate leaves the
// device.
#pragma once
#include <array>

#include "attention_problem.h"
#include "weft/core/compile/eager.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/structural.h"

namespace weft::test {

struct Operands {
  Var q, k, v, dout;
};
inline constexpr std::array<const char*, 5> kAnswerNames{"out", "lse", "dq", "dk", "dv"};
using Answer = std::array<Var, kAnswerNames.size()>;

// Draws standard normal values from the current builder's seed.
inline Operands DrawOperands(const Problem& p) {
  auto draw = [&](const Shape& shape) { return Cast(RandomNormal(DType::kF32, shape), p.type.dtype); };
  Var q = draw(p.query_shape()), k = draw(p.key_shape()), v = draw(p.key_shape());
  return {q, k, v, draw(p.query_shape())};
}

// Rounds f32 to the nearest value with 11 significant bits (Veltkamp splitting).
inline Var RoundTf32(const Var& x) {
  Var t = Scale(x, 0x1p13 + 1);
  return t - (t - x);
}

// `math` is the type of every sum. `narrow` is the type of the results and of the factors of products; with TF32, of
// the factors only.
inline Answer ComposedAttention(const Problem& p, const Operands& x, DType math, ProblemType narrow) {
  auto round = [&](const Var& y) { return Cast(Cast(y, narrow.dtype), math); };
  auto factor = [&](const Var& y) { return narrow.tf32 ? RoundTf32(y) : round(y); };
  auto repeat = [&](const Var& kv) {
    Var wide = factor(Cast(kv, math));
    return p.group == 1 ? wide : Merge(Broadcast(wide, 3, p.group), 2);
  };
  Var q = factor(Cast(x.q, math)), k = repeat(x.k), v = repeat(x.v), dout = factor(Cast(x.dout, math));
  const Shape scores{p.B, p.H(), p.T, p.S};
  Var seen;
  if (p.causal)
    seen = BroadcastTo(
        Iota(1, DType::kI64, {p.T, p.S}) <= AddScalar(Iota(0, DType::kI64, {p.T, p.S}), double(p.offset)), scores);
  auto masked = [&](const Var& s) { return p.causal ? Select(seen, s, Full(-1e30, math, scores)) : s; };

  Var s = Scale(Einsum("bthd,bshd->bhts", q, k), p.factor());  // [B, H, T, S]
  Var top = ReduceMax(masked(s), 3);                           // [B, H, T]
  Var e = Exp(masked(s - Broadcast(top, 3, p.S)));
  Var sum = ReduceSum(e, 3);
  auto rows = [&](double value) { return Full(value, math, {p.B, p.H(), p.T}); };
  Var any = sum > rows(0), divisor = Select(any, sum, rows(1));
  Var probability = e / Broadcast(divisor, 3, p.S);                                                 // [B, H, T, S]
  Var out = round(Einsum("bhts,bshd->bthd", factor(probability), v));                               // [B, T, H, D]
  Var lse = Permute(Select(any, Log(divisor) + top, rows(-INFINITY)), {0, 2, 1});                   // [B, T, H]
  Var delta = Permute(ReduceSum(Cast(x.dout, math) * out, 3), {0, 2, 1});                           // [B, H, T]
  Var dp = Einsum("bthd,bshd->bhts", dout, v);                                                      // [B, H, T, S]
  Var ds = factor(probability * (dp - Broadcast(delta, 3, p.S)));                                   // [B, H, T, S]
  auto fold = [&](const Var& y) { return p.group == 1 ? y : ReduceSum(Split(y, 2, p.group), 3); };  // [B, S, G, D]
  return {out, lse, round(Scale(Einsum("bhts,bshd->bthd", ds, k), p.factor())),
          round(Scale(fold(Einsum("bhts,bthd->bshd", ds, q)), p.factor())),
          round(fold(Einsum("bhts,bthd->bshd", factor(probability), dout)))};
}

// ---- Numbers of a Var. ----

inline double ItemOf(const Var& scalar) {
  return static_cast<EagerBuilder&>(CurrentBuilder()).ToLocal(scalar, {}).Item();
}
inline double LargestOf(Var x) {
  while (x.rank() > 0) x = ReduceMax(x, x.rank() - 1);
  return ItemOf(x);
}

struct Distance {
  double rms, max;
};
// Returns NaN if either value has a NaN. Infinities must be equal.
inline Distance DistanceOf(const Var& got, const Var& want) {
  Var g = Cast(got, DType::kF64), w = Cast(want, DType::kF64);
  Var d = Select(Eq(g, w), Full(0, DType::kF64, g.shape()), g - w);
  return {std::sqrt(ItemOf(SumOfSquares(d)) / double(NumElements(g.shape()))), LargestOf(Abs(d))};
}

}  // namespace weft::test
