#include "weft/core/ops/sdpa_compositions.h"

#include <limits>

#include "weft/core/ops/ops.h"

namespace weft {
namespace {

// Broadcasts a mask or bias [B or 1, H or 1, T or 1, S] to [B, H, T, S].
Var Spread(Var x, const Shape& scores) {
  for (int d = 0; d < 3; d++)
    if (x.dim(d) != scores[size_t(d)]) x = Broadcast(Merge(x, d), d, scores[size_t(d)]);
  return x;
}
// The transpose of Spread.
Var Gathered(Var x, const Shape& bias) {
  for (int d = 0; d < 3; d++)
    if (x.dim(d) != bias[size_t(d)]) x = Broadcast(ReduceSum(x, d), d, 1);
  return x;
}

// The operands of one node in the accumulate type, and its scores.
class Attention {
 public:
  Attention(const Node& node, int first)
      : node_(node),
        at_(node.attrs, first),
        acc_(AccumulateType(node.inputs[0].dtype())),
        group_(node.inputs[0].dim(2) / node.inputs[1].dim(2)),
        q(Cast(node.inputs[0], acc_)),
        k(RepeatHeads(Cast(node.inputs[1], acc_))),
        v(RepeatHeads(Cast(node.inputs[2], acc_))),
        shape_{q.dim(0), q.dim(2), q.dim(1), k.dim(1)},
        seen_(Seen()) {}

 private:
  const Node& node_;
  SdpaOperands at_;
  DType acc_;
  int64_t group_;

 public:
  const Var q, k, v;  // [B, T, H, D], [B, S, H, D], [B, S, H, E]

  DType acc() const { return acc_; }
  const SdpaOperands& at() const { return at_; }
  double scale() const { return node_.attrs.Float("scale"); }
  // A score that stands for "not seen": its exponential is 0.
  double lowest() const { return acc_ == DType::kF64 ? -1e300 : -1e30; }
  Var Rows(double value) const { return Full(value, acc_, {shape_[0], shape_[1], shape_[2]}); }  // [B, H, T]
  Var OverKeys(const Var& rows) const { return Broadcast(rows, 3, shape_[3]); }                  // [B, H, T, S]

  // The scores before the bias, and d capped / d raw, which is empty without a softcap.
  struct Scores {
    Var values, slope;  // [B, H, T, S]
  };
  Scores Capped() const {
    Var raw = Scale(Einsum("bthd,bshd->bhts", q, k), scale());  // [B, H, T, S]
    if (!node_.attrs.Has("softcap")) return {raw, {}};
    double cap = node_.attrs.Float("softcap");
    Var t = Tanh(Scale(raw, 1 / cap));  // [B, H, T, S]
    return {Scale(t, cap), AddScalar(Neg(Square(t)), 1)};
  }
  Var Biased(const Var& s) const {
    return at_.bias < 0 ? s : s + Spread(Cast(node_.inputs[size_t(at_.bias)], acc_), shape_);
  }
  // Hides the keys that are not seen. It must be applied last before Exp, because hidden scores may be infinite.
  Var Masked(const Var& s) const { return seen_.defined() ? Select(seen_, s, Full(lowest(), acc_, shape_)) : s; }
  Var Sinks() const {
    Var sinks = Cast(node_.inputs[size_t(at_.sinks)], acc_);         // [H]
    return Broadcast(Broadcast(sinks, 1, shape_[2]), 0, shape_[0]);  // [B, H, T]
  }
  // Drops probabilities as the kernels do: the element is the global [b, h, i, j].
  Var Dropped(const Var& p) const {
    if (at_.random < 0) return p;
    Attrs attrs{{"p", node_.attrs.Float("p")}, {"key", node_.attrs.Int("key")}};
    if (node_.attrs.IntOr("size", 0))
      for (const Attrs::Item& item :
           {Attrs::Item{"dim", 2}, {"start", node_.attrs.Int("start")}, {"size", node_.attrs.Int("size")}})
        attrs.Set(item);
    return EmitOne(Op::kDropout, attrs, {p, node_.inputs[size_t(at_.random)], node_.inputs[size_t(at_.random) + 1]},
                   node_.loc);
  }
  // Sums the gradient of repeated heads over each group. Returns [B, S, G, *].
  Var Fold(const Var& x) const { return group_ == 1 ? x : ReduceSum(Split(x, 2, group_), 3); }

 private:
  // Repeats each KV head for the query heads of its group.
  Var RepeatHeads(const Var& kv) const { return group_ == 1 ? kv : Merge(Broadcast(kv, 3, group_), 2); }

  // Computes what each rule sees in as few dims as it needs, since positions take eight bytes each.
  Var Seen() const {
    Var seen;
    for (const Var& also : {SeenByPosition(), at_.mask >= 0 ? Input(at_.mask) : Var(), SeenByLength(), SeenBySegment()})
      if (also.defined()) seen = seen.defined() ? And(seen, Spread(also, shape_)) : Spread(also, shape_);
    return seen;
  }
  // [1 or B, 1, T, S]; empty if there is neither a causal mask nor a window.
  Var SeenByPosition() const {
    const Attrs& attrs = node_.attrs;
    int64_t left = attrs.IntOr("left", -1), right = attrs.Int("causal") ? 0 : attrs.IntOr("right", -1);
    if (left < 0 && right < 0) return {};
    Shape shape{at_.offsets >= 0 ? shape_[0] : 1, 1, shape_[2], shape_[3]};
    Var i = Iota(2, DType::kI64, shape), j = Iota(3, DType::kI64, shape);  // [1 or B, 1, T, S]
    Var position = AddScalar(i, double(attrs.Int("causal_offset")));       // [1 or B, 1, T, S]
    if (at_.offsets >= 0) {
      Var offsets = Broadcast(Broadcast(Input(at_.offsets), 1, shape_[2]), 2, shape_[3]);  // [B, T, S]
      position = position + Broadcast(offsets, 1, 1);                                      // [B, 1, T, S]
    }
    Var before, after;
    if (right >= 0) before = Le(j, right ? AddScalar(position, double(right)) : position);
    if (left >= 0) after = Ge(j, AddScalar(position, -double(left)));
    return !after.defined() ? before : !before.defined() ? after : And(before, after);
  }
  // [B, 1, 1, S]; empty without lengths.
  Var SeenByLength() const {
    if (at_.lengths < 0) return {};
    Var j = Iota(1, DType::kI64, {shape_[0], shape_[3]});             // [B, S]
    Var inside = Lt(j, Broadcast(Input(at_.lengths), 1, shape_[3]));  // [B, S]
    return Broadcast(Broadcast(inside, 1, 1), 2, 1);                  // [B, 1, 1, S]
  }
  // [B, 1, T, S]; empty without segments.
  Var SeenBySegment() const {
    if (at_.segments < 0) return {};
    Var a = Broadcast(Input(at_.segments), 2, shape_[3]);      // [B, T, S]
    Var b = Broadcast(Input(at_.segments + 1), 1, shape_[2]);  // [B, T, S]
    Var same = And(Eq(a, b), Ge(a, Full(0, DType::kI64, {shape_[0], shape_[2], shape_[3]})));
    return Broadcast(same, 1, 1);  // [B, 1, T, S]
  }
  const Var& Input(int i) const { return node_.inputs[size_t(i)]; }

  const Shape shape_;  // [B, H, T, S]
  const Var seen_;     // bool; empty if every query sees every key
};

}  // namespace

Outputs ComposeSdpa(const Node& node) {
  Attention a(node, 3);
  DType dtype = node.inputs[0].dtype();
  Var s = a.Biased(a.Capped().values);                           // [B, H, T, S]
  Var max = StopGradient(ReduceMax(a.Masked(s), 3));             // [B, H, T]
  if (a.at().bias >= 0) max = Maximum(max, a.Rows(a.lowest()));  // a bias may be -inf for all keys
  if (a.at().sinks >= 0) max = Maximum(max, StopGradient(a.Sinks()));
  Var e = Exp(a.Masked(s - a.OverKeys(max)));
  Var sum = ReduceSum(e, 3);  // [B, H, T]
  if (a.at().sinks >= 0) sum = sum + Exp(a.Sinks() - max);
  // A row that sees no key has out 0 and lse -inf.
  Var any = Gt(sum, a.Rows(0)), divisor = Select(any, sum, a.Rows(1));
  Var p = a.Dropped(e / a.OverKeys(divisor));   // [B, H, T, S]
  Var out = Einsum("bhts,bshd->bthd", p, a.v);  // [B, T, H, E]
  Var lse = Select(any, Log(divisor) + max, a.Rows(-std::numeric_limits<double>::infinity()));
  return {Cast(out, dtype), Permute(lse, {0, 2, 1})};
}

Outputs ComposeSdpaGrad(const Node& node) {
  Attention a(node, 6);
  DType dtype = node.inputs[0].dtype();
  Var dout = Cast(node.inputs[5], a.acc()), lse = Permute(node.inputs[4], {0, 2, 1});  // [B, T, H, E], [B, H, T]
  Attention::Scores capped = a.Capped();
  Var s = a.Biased(capped.values);                                                       // [B, H, T, S]
  if (a.at().bias >= 0) lse = Select(Gt(lse, a.Rows(a.lowest())), lse, a.Rows(0));       // -inf - -inf would be NaN
  Var p = Exp(a.Masked(s - a.OverKeys(lse)));                                            // [B, H, T, S]
  Var delta = Permute(ReduceSum(dout * Cast(node.inputs[3], a.acc()), 3), {0, 2, 1});    // [B, H, T]
  Var dp = a.Dropped(Einsum("bthd,bshd->bhts", dout, a.v));                              // [B, H, T, S]
  Var dbiased = p * (dp - a.OverKeys(delta));                                            // [B, H, T, S]
  Var ds = Scale(capped.slope.defined() ? dbiased * capped.slope : dbiased, a.scale());  // [B, H, T, S]
  Outputs d{Cast(Einsum("bhts,bshd->bthd", ds, a.k), dtype), Cast(a.Fold(Einsum("bhts,bthd->bshd", ds, a.q)), dtype),
            Cast(a.Fold(Einsum("bhts,bthd->bshd", a.Dropped(p), dout)), dtype)};
  if (a.at().sinks >= 0)
    d.push_back(Cast(ReduceSum(ReduceSum(Neg(Exp(a.Sinks() - lse) * delta), 2), 0), dtype));  // [H]
  if (a.at().bias >= 0) d.push_back(Cast(Gathered(dbiased, node.inputs[size_t(a.at().bias)].shape()), dtype));
  return d;
}

}  // namespace weft
