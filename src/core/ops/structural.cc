#include "weft/core/ops/structural.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

int DimOf(const Node& node) { return int(node.attrs.Int("dim")); }
DType DTypeOf(const Node& node) { return node.inputs[0].dtype(); }

void InferBroadcast(Node& node) {
  Shape shape = node.inputs[0].shape();
  int64_t size = node.attrs.Int("size");
  if (size < 0)
    FailAt(node, fmt::format("expected a size >= 0 for the new dim of {}, got {}; 1 inserts a dim without copies",
                             ToString(node.inputs[0]), size));
  shape.insert(shape.begin() + DimOf(node), size);
  AddOutput(node, DTypeOf(node), std::move(shape));
}
void InferPermute(Node& node) {
  const Shape &x = node.inputs[0].shape(), &perm = node.attrs.Ints("perm");
  Shape shape, seen(x.size(), 0);
  bool fits = perm.size() == x.size();
  for (int64_t p : perm) fits = fits && p >= 0 && p < int64_t(x.size()) && !seen[size_t(p)]++;
  if (!fits)
    FailAt(node, fmt::format("expected each of the {} dims of {} once, counted from 0, got {}; name every dim",
                             x.size(), ToString(node.inputs[0]), ToString(perm)));
  for (int64_t p : perm) shape.push_back(x[size_t(p)]);
  AddOutput(node, DTypeOf(node), std::move(shape));
}
void InferSplit(Node& node) {
  Shape shape = node.inputs[0].shape();
  size_t dim = size_t(DimOf(node));
  int64_t inner = node.attrs.Int("inner");
  if (inner <= 0 || shape[dim] % inner)
    FailAt(node, fmt::format("expected pieces whose size divides dim {} of {}, got {}; pad or slice the dim first", dim,
                             ToString(node.inputs[0]), inner));
  shape[dim] /= inner;
  shape.insert(shape.begin() + int(dim) + 1, inner);
  AddOutput(node, DTypeOf(node), std::move(shape));
}
void InferMerge(Node& node) {
  Shape shape = node.inputs[0].shape();
  size_t dim = size_t(DimOf(node));
  if (dim + 1 >= shape.size())
    FailAt(node,
           fmt::format(
               "expected a dim of {} that has another one after it, got dim {}, the last one; give the dim before it",
               ToString(node.inputs[0]), dim));
  shape[dim] *= shape[dim + 1];
  shape.erase(shape.begin() + int(dim) + 1);
  AddOutput(node, DTypeOf(node), std::move(shape));
}
int64_t StepOf(const Node& node) { return node.attrs.IntOr("step", 1); }
void InferSlice(Node& node) {
  Shape shape = node.inputs[0].shape();
  int64_t &extent = shape[size_t(DimOf(node))], start = node.attrs.Int("start"), length = node.attrs.Int("length");
  int64_t step = StepOf(node);
  if (step < 1)
    FailAt(node, fmt::format("expected a step >= 1 along dim {} of {}, got {}; Reverse it for steps backwards",
                             DimOf(node), ToString(node.inputs[0]), step));
  int64_t most = start < 0 || start >= extent ? 0 : (extent - 1 - start) / step + 1;  // elements from the start on
  if (start < 0 || start > extent || length < 0 || length > most)
    FailAt(node, fmt::format("expected elements in [0, {}) of dim {} of {}, got a start of {} and a length of {}{}; "
                             "shorten it, or Pad first",
                             extent, DimOf(node), ToString(node.inputs[0]), start, length,
                             step == 1 ? "" : fmt::format(", {} apart", step)));
  extent = length;
  AddOutput(node, DTypeOf(node), std::move(shape));
}
void InferPad(Node& node) {
  Shape shape = node.inputs[0].shape();
  int64_t low = node.attrs.Int("low"), high = node.attrs.Int("high");
  if (low < 0 || high < 0)
    FailAt(node, fmt::format("expected padding >= 0 of dim {} of {}, got {} and {}; Slice removes elements",
                             DimOf(node), ToString(node.inputs[0]), low, high));
  if (low > kMostElements || high > kMostElements)
    FailAt(node, fmt::format("expected padding of at most {:.0e} elements of dim {} of {}, got {} and {}; lower it",
                             double(kMostElements), DimOf(node), ToString(node.inputs[0]), low, high));
  shape[size_t(DimOf(node))] += low + high;
  AddOutput(node, DTypeOf(node), std::move(shape));
}
void InferConcat(Node& node) {
  Shape shape = node.inputs[0].shape();
  size_t dim = size_t(DimOf(node));
  for (size_t i = 1; i < node.inputs.size(); i++) {
    Shape other = node.inputs[i].shape();
    bool fits = other.size() == shape.size() && node.inputs[i].dtype() == DTypeOf(node);
    if (fits) other[dim] = shape[dim] += other[dim];
    if (std::string fault = ShapeFault(shape); !fault.empty()) FailAt(node, fault);  // before a sum can overflow
    if (!fits || other != shape)
      FailAt(node, fmt::format("expected operands of one dtype that agree in all dims but {}, got {} first and {} as "
                               "operand {}; cast, slice or pad it",
                               dim, ToString(node.inputs[0]), ToString(node.inputs[i]), i));
  }
  AddOutput(node, DTypeOf(node), std::move(shape));
}

void InferSame(Node& node) { AddOutput(node, DTypeOf(node), node.inputs[0].shape()); }

Dims Labels(std::string in, std::string out) {
  return {.in = {std::move(in)}, .out = {std::move(out)}, .linear = Linear::kJoint};
}
Dims BroadcastDims(const Node& node) {
  std::string in = Letters(node.inputs[0].rank()), out = in;
  out.insert(size_t(DimOf(node)), "z");
  return Labels(in, out);
}
Dims PermuteDims(const Node& node) {
  std::string in = Letters(node.inputs[0].rank()), out;
  for (int64_t p : node.attrs.Ints("perm")) out += in[size_t(p)];
  return Labels(in, out);
}
Dims SplitDims(const Node& node) {
  size_t dim = size_t(DimOf(node));
  std::string in = Letters(node.inputs[0].rank()), out = in;
  out.replace(dim, 1, "yz");
  Dims dims = Labels(in, out);
  dims.blocked = "z";
  dims.groups.push_back({in[dim], 'y', node.attrs.Int("inner"), true});
  return dims;
}
Dims MergeDims(const Node& node) {
  size_t dim = size_t(DimOf(node));
  std::string out = Letters(int(node.outputs[0].shape.size())), in = out;
  in.replace(dim, 1, "yz");
  Dims dims = Labels(in, out);
  dims.blocked = "z";
  dims.groups.push_back({out[dim], 'y', node.inputs[0].shape()[dim + 1], true});
  return dims;
}
Dims BlockedDims(const Node& node) {
  std::string labels = Letters(node.inputs[0].rank());
  Dims dims = Labels(labels, labels);
  dims.in.assign(node.inputs.size(), labels);
  dims.blocked = labels[size_t(DimOf(node))];
  return dims;
}

void GradBroadcast(GradCall& call) {
  Attrs attrs{{"dim", DimOf(*call.node)}};
  if (call.Widens(0)) attrs.Set({"wide", 1});
  call.dx[0] = EmitOne(Op::kReduceSum, attrs, {call.dy[0]}, call.node->loc);
}
void GradPermute(GradCall& call) {
  const Shape& perm = call.node->attrs.Ints("perm");
  Shape inverse(perm.size());
  for (size_t i = 0; i < perm.size(); i++) inverse[size_t(perm[i])] = int64_t(i);
  call.dx[0] = Permute(call.dy[0], inverse);
}
void GradSplit(GradCall& call) { call.dx[0] = Merge(call.dy[0], DimOf(*call.node)); }
void GradMerge(GradCall& call) {
  call.dx[0] = Split(call.dy[0], DimOf(*call.node), call.in(0).dim(DimOf(*call.node) + 1));
}
// Puts step - 1 zeros after each element of dim. [.., n, ..] becomes [.., n * step, ..].
Var SpreadOut(const Var& x, int dim, int64_t step) {
  if (step == 1) return x;
  return Merge(Pad(Broadcast(x, dim + 1, 1), dim + 1, 0, step - 1), dim);
}
void GradSlice(GradCall& call) {
  int dim = DimOf(*call.node);
  int64_t start = call.node->attrs.Int("start"), rest = call.in(0).dim(dim) - start;
  Var dy = SpreadOut(call.dy[0], dim, StepOf(*call.node));
  if (dy.dim(dim) > rest) dy = Slice(dy, dim, 0, rest);  // zeros after the last element
  call.dx[0] = Pad(dy, dim, start, rest - dy.dim(dim));
}
void GradPad(GradCall& call) {
  call.dx[0] = Slice(call.dy[0], DimOf(*call.node), call.node->attrs.Int("low"), call.in(0).dim(DimOf(*call.node)));
}
void GradConcat(GradCall& call) {
  int64_t start = 0;
  int dim = DimOf(*call.node);
  for (size_t i = 0; i < call.node->inputs.size(); i++) {
    int64_t length = call.in(int(i)).dim(dim);
    call.dx[i] = Slice(call.dy[0], dim, start, length);
    start += length;
  }
}

void GradReverse(GradCall& call) { call.dx[0] = Reverse(call.dy[0], DimOf(*call.node)); }

std::vector<Sample> Samples(Op op) {
  switch (op) {
    case Op::kBroadcast:
      return {{{{{5}}}, {{"dim", 0}, {"size", 3}}}, {{{{4, 3}}}, {{"dim", 1}, {"size", 5}}}};
    case Op::kPermute:
      return {{{{{5, 2, 4}}}, {{"perm", Shape{2, 0, 1}}}}};
    case Op::kSplit:
      return {{{{{12, 3}}}, {{"dim", 0}, {"inner", 3}}}, {{{{2, 10}}}, {{"dim", 1}, {"inner", 2}}}};
    case Op::kMerge:
      return {{{{{4, 3, 2}}}, {{"dim", 0}}}, {{{{2, 5, 2}}}, {{"dim", 1}}}};
    case Op::kSlice:
      return {{{{{7, 4}}}, {{"dim", 0}, {"start", 2}, {"length", 4}}},
              {{{{3, 8}}}, {{"dim", 1}, {"start", 1}, {"length", 3}, {"step", 3}}},
              {{{{9, 2}}}, {{"dim", 0}, {"start", 1}, {"length", 3}, {"step", 2}}}};
    case Op::kPad:
      return {{{{{3, 5}}}, {{"dim", 1}, {"low", 1}, {"high", 2}}}};
    case Op::kReverse:
      return {{{{{5, 4}}}, {{"dim", 0}}}, {{{{3, 6}}}, {{"dim", 1}}}};
    default:
      return {{{{{5, 2}}, {{5, 3}}}, {{"dim", 1}}}, {{{{2, 4}}, {{3, 4}}, {{1, 4}}}, {{"dim", 0}}}};
  }
}

}  // namespace

Var Broadcast(Var x, int dim, int64_t size, Loc loc) {
  return EmitOne(Op::kBroadcast, {{"dim", CheckedDim(x, dim, "broadcast", loc, 1)}, {"size", size}}, {x}, loc);
}
Var BroadcastTo(Var x, const Shape& shape, Loc loc) {
  CheckAssigned(x, "broadcast", loc);
  std::optional<Shape> both = BroadcastShape(x.shape(), shape);
  WEFT_CHECK(both == shape, fmt::format("broadcast at {}: expected dims that are 1 or the trailing ones of {}, got {}; "
                                        "unsqueeze, permute or slice it",
                                        ToString(loc), ToString(shape), ToString(x)));
  int missing = int(shape.size()) - x.rank();
  for (int d = 0; d < x.rank(); d++)
    if (int64_t size = shape[size_t(missing + d)]; x.dim(d) != size) x = Broadcast(Squeeze(x, d, loc), d, size, loc);
  for (int i = missing - 1; i >= 0; i--) x = Broadcast(x, 0, shape[size_t(i)], loc);
  return x;
}
std::optional<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  if (a.size() < b.size()) return BroadcastShape(b, a);
  Shape shape = a;
  for (size_t d = 0; d < b.size(); d++) {
    int64_t &mine = shape[a.size() - b.size() + d], other = b[d];
    if (mine != other && mine != 1 && other != 1) return std::nullopt;
    if (mine == 1) mine = other;
  }
  return shape;
}
// Merges the dim with the one before it, which keeps that one's shards.
Var Squeeze(Var x, int dim, Loc loc) {
  dim = CheckedDim(x, dim, "squeeze", loc);
  WEFT_CHECK(x.dim(dim) == 1,
             fmt::format("squeeze at {}: expected a dim of extent 1 of {}, got dim {}; a reduction removes others",
                         ToString(loc), ToString(x), dim));
  if (x.rank() == 1) return EmitOne(Op::kReduceSum, {{"dim", 0}}, {x}, loc);
  if (dim > 0) return Merge(x, dim - 1, loc);
  Shape perm;
  for (int d = 0; d < x.rank(); d++) perm.push_back(d);
  std::swap(perm[0], perm[1]);
  return Merge(Permute(x, perm, loc), 0, loc);
}
Var Unsqueeze(Var x, int dim, Loc loc) { return Broadcast(x, CheckedDim(x, dim, "unsqueeze", loc, 1), 1, loc); }
Var Permute(Var x, Shape perm, Loc loc) { return EmitOne(Op::kPermute, {{"perm", std::move(perm)}}, {x}, loc); }
Var Split(Var x, int dim, int64_t inner, Loc loc) {
  return EmitOne(Op::kSplit, {{"dim", CheckedDim(x, dim, "split", loc)}, {"inner", inner}}, {x}, loc);
}
Var Merge(Var x, int dim, Loc loc) {
  return EmitOne(Op::kMerge, {{"dim", CheckedDim(x, dim, "merge", loc)}}, {x}, loc);
}
Var Slice(Var x, int dim, int64_t start, int64_t length, Loc loc) {
  return EmitOne(Op::kSlice, {{"dim", CheckedDim(x, dim, "slice", loc)}, {"start", start}, {"length", length}}, {x},
                 loc);
}
Var StridedSlice(Var x, int dim, int64_t start, int64_t length, int64_t step, Loc loc) {
  // At most one element has no step, and a large one would overflow the offset of the next element.
  if (length < 2 && step > 1) step = 1;
  Attrs attrs{{"dim", CheckedDim(x, dim, "slice", loc)}, {"start", start}, {"length", length}, {"step", step}};
  return EmitOne(Op::kSlice, attrs, {x}, loc);
}
Var Pad(Var x, int dim, int64_t low, int64_t high, Loc loc) {
  return EmitOne(Op::kPad, {{"dim", CheckedDim(x, dim, "pad", loc)}, {"low", low}, {"high", high}}, {x}, loc);
}
Var Concat(std::span<const Var> xs, int dim, Loc loc) {
  WEFT_CHECK(!xs.empty(), fmt::format("concat at {}: expected at least one operand, got none; give the tensors to join",
                                      ToString(loc)));
  return CurrentBuilder().Emit(Op::kConcat, {{"dim", CheckedDim(xs[0], dim, "concat", loc)}}, xs, loc)[0];
}
Var Reverse(Var x, int dim, Loc loc) {
  return EmitOne(Op::kReverse, {{"dim", CheckedDim(x, dim, "reverse", loc)}}, {x}, loc);
}

void RegisterStructural(OpTable& t) {
  t[size_t(Op::kBroadcast)] = {.op = Op::kBroadcast,
                               .infer = InferBroadcast,
                               .grad = GradBroadcast,
                               .dims = BroadcastDims,
                               .samples = Samples,
                               .generator = true};
  t[size_t(Op::kPermute)] = {
      .op = Op::kPermute, .infer = InferPermute, .grad = GradPermute, .dims = PermuteDims, .samples = Samples};
  t[size_t(Op::kSplit)] = {
      .op = Op::kSplit, .infer = InferSplit, .grad = GradSplit, .dims = SplitDims, .samples = Samples, .alias = true};
  t[size_t(Op::kMerge)] = {
      .op = Op::kMerge, .infer = InferMerge, .grad = GradMerge, .dims = MergeDims, .samples = Samples, .alias = true};
  t[size_t(Op::kSlice)] = {.op = Op::kSlice,
                           .infer = InferSlice,
                           .grad = GradSlice,
                           .dims = BlockedDims,
                           .samples = Samples,
                           .reads_part = true};
  t[size_t(Op::kPad)] = {.op = Op::kPad, .infer = InferPad, .grad = GradPad, .dims = BlockedDims, .samples = Samples};
  t[size_t(Op::kConcat)] = {
      .op = Op::kConcat, .infer = InferConcat, .grad = GradConcat, .dims = BlockedDims, .samples = Samples};
  t[size_t(Op::kReverse)] = {
      .op = Op::kReverse, .infer = InferSame, .grad = GradReverse, .dims = BlockedDims, .samples = Samples};
#define WEFT_BY_ROWS(Name, ...) t[size_t(Op::k##Name)].by_rows = true;
  WEFT_STRUCTURAL_OPS(WEFT_BY_ROWS)
#undef WEFT_BY_ROWS
}

}  // namespace weft
