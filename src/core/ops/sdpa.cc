#include "weft/core/ops/sdpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/sdpa_compositions.h"

namespace weft {
namespace {

constexpr int kSdpaInputs = 3, kSdpaGradInputs = 6;
int BaseInputs(Op op) { return op == Op::kSdpaGrad ? kSdpaGradInputs : kSdpaInputs; }
SdpaOperands OperandsOf(const Node& node) { return SdpaOperands(node.attrs, BaseInputs(node.op)); }
const Var& In(const Node& node, int i) { return node.inputs[size_t(i)]; }

// Returns what is wrong with the shapes of q, k and v, or "" if they fit together.
std::string HeadsFault(const Var& q, const Var& k, const Var& v) {
  for (const Var* x : {&q, &k, &v})
    if (x->rank() != 4) return "split the width of a token into heads and their size";
  if (q.dim(0) != k.dim(0) || q.dim(0) != v.dim(0)) return "the batches differ";
  if (k.dim(1) != v.dim(1)) return "there must be a value for each key";
  if (k.dim(2) != v.dim(2)) return "keys and values must have the same heads";
  if (q.dim(3) != k.dim(3)) return "queries and keys must have one head size";
  if (k.dim(2) == 0 || q.dim(2) % k.dim(2) != 0)
    return fmt::format("{} heads are no multiple of {} key-value heads", q.dim(2), k.dim(2));
  return "";
}
void CheckHeads(const Node& node) {
  const Var &q = In(node, 0), &k = In(node, 1), &v = In(node, 2);
  auto refuse = [&](const char* expected, const std::string& advice) {
    FailAt(node,
           fmt::format("expected {}, got {}, {} and {}; {}", expected, ToString(q), ToString(k), ToString(v), advice));
  };
  if (std::string fault = HeadsFault(q, k, v); !fault.empty())
    refuse("q [B, T, H, D], k [B, S, G, D] and v [B, S, G, E] with G dividing H", fault);
  if (!IsFloating(q.dtype()) || k.dtype() != q.dtype() || v.dtype() != q.dtype())
    refuse("q, k and v of one floating dtype", "cast them");
}

// `note` says what to do; "" if the expected shape says it all.
void CheckOperand(const Node& node, int i, const char* what, DType dtype, const Shape& shape, const char* note = "") {
  const Var& x = In(node, i);
  if (x.dtype() == dtype && x.shape() == shape) return;
  FailAt(node, fmt::format("expected {} of {} {}, got {}{}", what, Name(dtype), ToString(shape), ToString(x), note));
}
// Returns advice for a mask of the wrong kind: what takes the kind that was given.
const char* OtherMask(DType expected, DType got) {
  if (expected == DType::kBool)
    return IsFloating(got) ? "; numbers to add to the scores are `bias`" : "; compare it with a number";
  return got == DType::kBool ? "; a boolean mask is `mask`, an AttendMask or an IgnoreMask" : "; cast it";
}
// Checks a mask or bias: [B, H, T, S], where each of the first three may be 1.
void CheckScoreShape(const Node& node, int i, const char* what, DType dtype) {
  const Shape &q = In(node, 0).shape(), want{q[0], q[2], q[1], In(node, 1).dim(1)};
  const Var& x = In(node, i);
  bool fits = x.dtype() == dtype && x.rank() == 4 && x.dim(3) == want[3];
  for (int d = 0; fits && d < 3; d++) fits = x.dim(d) == want[size_t(d)] || x.dim(d) == 1;
  if (!fits)
    FailAt(node, fmt::format("expected a {} of {} {}, where each dim but the last may be 1, got {}{}", what,
                             Name(dtype), ToString(want), ToString(x),
                             x.dtype() == dtype ? "; broadcast, slice or permute it" : OtherMask(dtype, x.dtype())));
}
void CheckFurtherOperands(const Node& node) {
  SdpaOperands at = OperandsOf(node);
  if (int(node.inputs.size()) != at.count)
    FailAt(node, fmt::format("expected {} operands, got {}", at.count, node.inputs.size()));
  const Shape &q = In(node, 0).shape(), &k = In(node, 1).shape();
  if (at.mask >= 0) CheckScoreShape(node, at.mask, "mask", DType::kBool);
  if (at.bias >= 0) CheckScoreShape(node, at.bias, "bias", In(node, 0).dtype());
  if (at.sinks >= 0) CheckOperand(node, at.sinks, "sinks", In(node, 0).dtype(), {q[2]}, "; give one per query head");
  if (at.offsets >= 0) CheckOperand(node, at.offsets, "offsets", DType::kI64, {q[0]}, "; give one per sequence");
  if (at.lengths >= 0) CheckOperand(node, at.lengths, "lengths", DType::kI64, {q[0]}, "; give one per sequence");
  if (at.segments >= 0) {
    CheckOperand(node, at.segments, "query_segments", DType::kI64, {q[0], q[1]}, "; give one per query");
    CheckOperand(node, at.segments + 1, "key_segments", DType::kI64, {k[0], k[1]}, "; give one per key");
  }
  for (int i = 0; at.random >= 0 && i < 2; i++)
    CheckOperand(node, at.random + i, i == 0 ? "a step" : "a first row", DType::kI64, {});
}

void InferSdpa(Node& node) {
  CheckHeads(node);
  CheckFurtherOperands(node);
  const Var& q = node.inputs[0];
  AddOutput(node, q.dtype(), {q.dim(0), q.dim(1), q.dim(2), node.inputs[2].dim(3)});
  AddOutput(node, AccumulateType(q.dtype()), {q.dim(0), q.dim(1), q.dim(2)});
}
void InferSdpaGrad(Node& node) {
  CheckHeads(node);
  CheckFurtherOperands(node);
  const Shape& q = node.inputs[0].shape();
  Shape out{q[0], q[1], q[2], node.inputs[2].dim(3)};
  CheckOperand(node, 3, "out", node.inputs[0].dtype(), out);
  CheckOperand(node, 4, "lse", AccumulateType(node.inputs[0].dtype()), {q[0], q[1], q[2]});
  CheckOperand(node, 5, "dout", node.inputs[0].dtype(), out);
  SdpaOperands at = OperandsOf(node);
  for (int i : {0, 1, 2, at.sinks, at.bias})
    if (i >= 0) AddOutput(node, In(node, i).dtype(), In(node, i).shape());
}

// The labels of a mask or bias. A dim of extent 1 that stands for a longer one has a label of its own.
std::string ScoreLabels(const Node& node, const Var& x) {
  const Shape& q = node.inputs[0].shape();
  const int64_t full[] = {q[0], q[2], q[1]};
  std::string labels;
  for (int d = 0; d < 3; d++) labels += x.dim(d) == full[d] ? "bht"[d] : "xyz"[d];
  return labels + 's';
}
// The labels of v and out: E has a label of its own only if it differs from D.
char ValueLabel(const Node& node) { return node.inputs[0].dim(3) == node.inputs[2].dim(3) ? 'd' : 'e'; }

void AddFurtherLabels(const Node& node, Dims& dims) {
  SdpaOperands at = OperandsOf(node);
  if (at.mask >= 0) dims.in.push_back(ScoreLabels(node, In(node, at.mask)));
  if (at.bias >= 0) dims.in.push_back(ScoreLabels(node, In(node, at.bias)));
  if (at.sinks >= 0) dims.in.push_back("h");
  if (at.offsets >= 0) dims.in.push_back("b");
  if (at.lengths >= 0) dims.in.push_back("b");
  if (at.segments >= 0) dims.in.insert(dims.in.end(), {"bt", "bs"});
  if (at.random >= 0) dims.in.insert(dims.in.end(), {"", ""});
  dims.blocked = "sdexyz";
  dims.positions = at.random >= 0 ? "bth" : "t";
  dims.groups = {{'h', 'g', node.inputs[0].dim(2) / node.inputs[1].dim(2), false}};
}
Dims SdpaDims(const Node& node) {
  std::string v{'b', 's', 'g', ValueLabel(node)}, out{'b', 't', 'h', ValueLabel(node)};
  Dims dims{.in = {"bthd", "bsgd", v}, .out = {out, "bth"}};
  AddFurtherLabels(node, dims);
  if (ValueLabel(node) == 'e') dims.products_of = {{'d', 1}, {'e', 1}};
  return dims;
}
Dims SdpaGradDims(const Node& node) {
  std::string v{'b', 's', 'g', ValueLabel(node)}, out{'b', 't', 'h', ValueLabel(node)};
  Dims dims{.in = {"bthd", "bsgd", v, out, "bth", out}, .out = {"bthd", "bsgd", v}};
  AddFurtherLabels(node, dims);
  SdpaOperands at = OperandsOf(node);
  for (int i : {at.sinks, at.bias})
    if (i >= 0) dims.out.push_back(dims.in[size_t(i)]);
  if (ValueLabel(node) == 'e') dims.products_of = {{'d', 3}, {'e', 2}};
  return dims;
}

void GradSdpa(GradCall& call) {
  std::vector<Var> operands{call.in(0), call.in(1), call.in(2), call.out(0), call.out(1), call.dy[0]};
  operands.insert(operands.end(), call.node->inputs.begin() + kSdpaInputs, call.node->inputs.end());
  Outputs d = CurrentBuilder().Emit(Op::kSdpaGrad, call.node->attrs, operands, call.node->loc);
  SdpaOperands at = OperandsOf(*call.node);
  size_t next = 0;
  for (int i : {0, 1, 2, at.sinks, at.bias})
    if (i >= 0) call.dx[size_t(i)] = d[next++];
}

// The same op for the queries from `first` on.
Attrs BlockOfQueries(const Node& node, int64_t first) {
  Attrs attrs = node.attrs;
  attrs.Set({"causal_offset", node.attrs.Int("causal_offset") + first});
  if (!attrs.Has("p")) return attrs;
  if (!attrs.IntOr("size", 0)) attrs.Set({"size", node.inputs[0].dim(1)});
  attrs.Set({"start", node.attrs.IntOr("start", 0) + first});
  return attrs;
}
// Scores of 128 queries at a time keep the memory of derivatives linear in the number of keys.
constexpr BlockRule kBlocks{.label = 't', .rows = 128, .attrs = BlockOfQueries};

struct SampleCase {
  int64_t T, S, H, G;
  Attrs attrs;
  std::vector<SampleInput> further{};
  int64_t E = 4;
};
IntegerRange SdpaIntegers(const Node& node, int operand) {
  SdpaOperands at(node.attrs, BaseInputs(node.op));
  int64_t value = at.Integer(operand, node.attrs, node.inputs[0].shape()[1], node.inputs[1].shape()[1]);
  return {value, value};
}

std::vector<Sample> SamplesSdpa(Op op) {
  auto attrs = [](bool causal, int64_t offset, std::initializer_list<Attrs::Item> more = {}) {
    Attrs all{{"causal", causal}, {"causal_offset", offset}, {"scale", 0.5}};
    for (const Attrs::Item& item : more) all.Set(item);
    return all;
  };
  const SampleInput scalar{{}, Domain::kIds, 3};
  const SampleCase cases[] = {
      {5, 5, 4, 4, attrs(true, 0)},
      {3, 5, 6, 2, attrs(true, 2)},
      {4, 3, 3, 1, attrs(false, 0)},
      {4, 5, 4, 2, attrs(false, 1, {{"left", 1}, {"right", 2}, {"softcap", 1.5}}), {}, 6},
      {3, 4, 4, 2, attrs(false, 0, {{"mask", 1}, {"bias", 1}}), {{{2, 1, 3, 4}, Domain::kBool}, {{1, 4, 3, 4}}}},
      {3, 4, 2, 2, attrs(true, 0, {{"bias", 1}, {"sinks", 1}}), {{{2, 1, 1, 4}}, {{2}}}},
      {3,
       4,
       4,
       2,
       attrs(true, 0, {{"offsets", 1}, {"segments", 1}}),
       {{{2}, Domain::kIds, 3}, {{2, 3}, Domain::kIds, 2}, {{2, 4}, Domain::kIds, 2}}},
      {3, 4, 4, 2, attrs(true, 1, {{"lengths", 1}}), {{{2}, Domain::kIds, 6}}},
      {3, 4, 2, 1, attrs(false, 0, {{"sinks", 1}, {"p", 0.4}, {"key", int64_t(0x1234567)}}), {{{2}}, scalar, scalar}},
  };
  std::vector<Sample> samples;
  for (const SampleCase& c : cases) {
    Shape q{2, c.T, c.H, 4}, k{2, c.S, c.G, 4}, v{2, c.S, c.G, c.E}, out{2, c.T, c.H, c.E};
    Sample sample{{{q}, {k}, {v}}, c.attrs};
    if (op == Op::kSdpaGrad)
      sample.inputs.insert(sample.inputs.end(), {{out}, {{2, c.T, c.H}, Domain::kPositive, 0, true}, {out}});
    sample.inputs.insert(sample.inputs.end(), c.further.begin(), c.further.end());
    samples.push_back(std::move(sample));
  }
  return samples;
}

// The attributes and further operands of a call.
struct Request {
  Attrs attrs;
  std::vector<Var> operands;

  void Add(AttrName<int64_t> flag, const Var& operand) {
    if (!operand.defined()) return;
    attrs.Set({flag, 1});
    operands.push_back(operand);
  }
};

[[noreturn]] void Refuse(const Loc& loc, const std::string& message) {
  Fail(fmt::format("sdpa at {}: {}", ToString(loc), message));
}
void CheckOptions(const SdpaOptions& o, const Loc& loc) {
  if (o.left < -1 || o.right < -1)
    Refuse(loc, fmt::format("expected a window of left >= -1 and right >= -1, got {} and {}; -1 leaves a side open",
                            o.left, o.right));
  if (o.causal && o.right > 0)
    Refuse(loc,
           fmt::format("expected right <= 0 with a causal mask, which hides later keys, got {}; set causal = false",
                       o.right));
  if (!std::isfinite(o.scale)) Refuse(loc, fmt::format("expected a finite scale, got {}; 0 is 1 / sqrt(D)", o.scale));
  if (!(o.softcap >= 0) || std::isinf(o.softcap))
    Refuse(loc, fmt::format("expected a finite softcap >= 0, got {}; 0 is none", o.softcap));
  if (!IsDropout(o.dropout))
    Refuse(loc, fmt::format("expected a dropout in [0, 1 - 2^-17), got {}; 0 is none", o.dropout));
  if (o.query_segments.defined() != o.key_segments.defined())
    Refuse(loc, fmt::format("expected segments of queries and of keys, got only {}; give both",
                            o.query_segments.defined() ? "query_segments" : "key_segments"));
}

Request RequestOf(const Var& q, const SdpaOptions& o, const Loc& loc) {
  CheckOptions(o, loc);
  double scale = o.scale != 0 ? o.scale : 1.0 / std::sqrt(double(q.dim(-1)));
  // No token is further away, and a sum of two such distances fits in 64 bits.
  int64_t offset = std::clamp(o.causal_offset, -kMostElements, kMostElements);
  Request r{{{"causal", o.causal}, {"causal_offset", offset}, {"scale", scale}}, {}};
  if (o.left >= 0) r.attrs.Set({"left", std::min(o.left, kMostElements)});
  if (o.right >= 0 && !o.causal) r.attrs.Set({"right", std::min(o.right, kMostElements)});
  if (o.softcap > 0) r.attrs.Set({"softcap", o.softcap});
  if (SdpaBackends::Current() != kAllSdpaBackends) r.attrs.Set({"backends", SdpaBackends::Current()});
  r.Add("mask", o.mask.var());
  r.Add("bias", o.bias);
  r.Add("sinks", o.sinks);
  r.Add("offsets", o.offsets);
  r.Add("lengths", o.lengths);
  r.Add("segments", o.query_segments);
  if (o.key_segments.defined()) r.operands.push_back(o.key_segments);
  Builder& builder = CurrentBuilder();
  if (o.dropout > 0 && builder.options().random_phase == RandomPhase::kTrain) {
    r.attrs.Set({"p", o.dropout});
    r.attrs.Set({"key", std::bit_cast<int64_t>(builder.NextRandomKey())});
    r.operands.insert(r.operands.end(), {builder.step, builder.first_row});
  }
  return r;
}

}  // namespace

SdpaOperands::SdpaOperands(const Attrs& attrs, int first) : count(first) {
  auto take = [&](bool there, int& at, int n = 1) {
    if (!there) return;
    at = count;
    count += n;
  };
  take(attrs.IntOr("mask", 0), mask);
  take(attrs.IntOr("bias", 0), bias);
  take(attrs.IntOr("sinks", 0), sinks);
  take(attrs.IntOr("offsets", 0), offsets);
  take(attrs.IntOr("lengths", 0), lengths);
  take(attrs.IntOr("segments", 0), segments, 2);
  take(attrs.Has("p"), random, 2);
}

// At offset 0 the query of a text that is being generated would see one key, however long the text is.
int64_t SdpaOperands::Integer(int operand, const Attrs& attrs, int64_t queries, int64_t keys) const {
  if (operand == lengths) return keys;
  if (operand == offsets) return std::max<int64_t>(keys - queries, 0) - attrs.IntOr("causal_offset", 0);
  return 0;
}

AttendMask IgnoreMask::Attend(Loc loc) const { return AttendMask(Not({var_, loc})); }

Var Sdpa(Var q, Var k, Var v, const SdpaOptions& options, Loc loc) {
  for (const Var* x : {&q, &k, &v}) CheckAssigned(*x, "sdpa", loc);
  if (q.rank() != 4 || k.rank() != 4) CurrentBuilder().Emit(Op::kSdpa, {}, std::vector<Var>{q, k, v}, loc);  // refuses
  Request r = RequestOf(q, options, loc);
  std::vector<Var> operands{q, k, v};
  operands.insert(operands.end(), r.operands.begin(), r.operands.end());
  return CurrentBuilder().Emit(Op::kSdpa, r.attrs, operands, loc)[0];
}

void RegisterSdpa(OpTable& t) {
  t[size_t(Op::kSdpa)] = {.op = Op::kSdpa,
                          .infer = InferSdpa,
                          .grad = GradSdpa,
                          .dims = SdpaDims,
                          .fallback = ComposeSdpa,
                          .samples = SamplesSdpa,
                          .blocks = &kBlocks,
                          .products = 2,
                          .integers = SdpaIntegers,
                          .by_rows = true};
  t[size_t(Op::kSdpaGrad)] = {.op = Op::kSdpaGrad,
                              .infer = InferSdpaGrad,
                              .dims = SdpaGradDims,
                              .fallback = ComposeSdpaGrad,
                              .samples = SamplesSdpa,
                              .blocks = &kBlocks,
                              .products = 5,
                              .integers = SdpaIntegers,
                              .by_rows = true};
}

}  // namespace weft
