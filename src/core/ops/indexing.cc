#include "weft/core/ops/indexing.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

size_t DimOf(const Node& node) { return size_t(node.attrs.Int("dim")); }
const Shape& ShapeOf(const Node& node, size_t operand) { return node.inputs[operand].shape(); }

void CheckInteger(const Node& node, size_t operand, const char* what) {
  DType dtype = node.inputs[operand].dtype();
  if (dtype != DType::kI32 && dtype != DType::kI64)
    FailAt(node, fmt::format("expected {} of i32 or i64, got {}; cast it", what, ToString(node.inputs[operand])));
}
// The operand must have x's extents in all dims but `dim`.
void CheckFits(const Node& node, size_t operand, const char* what) {
  Shape want = ShapeOf(node, 0), got = ShapeOf(node, operand);
  bool fits = got.size() == want.size();
  if (fits) want[DimOf(node)] = got[DimOf(node)];
  if (!fits || got != want)
    FailAt(node, fmt::format("expected {} with the extents of {} in all dims but {}, got {}; broadcast or slice it",
                             what, ToString(node.inputs[0]), DimOf(node), ToString(node.inputs[operand])));
}
// The start must have the shape of x's first dims, up to `dim` at most. The window must fit.
void CheckWindow(const Node& node, size_t start, int64_t length) {
  const Shape &x = ShapeOf(node, 0), &s = ShapeOf(node, start);
  CheckInteger(node, start, "a start");
  if (s.size() > DimOf(node) || Shape(x.begin(), x.begin() + int(s.size())) != s)
    FailAt(node, fmt::format("expected a start with the shape of the first dims of {}, at most {} of them, got {}; a "
                             "scalar starts all rows alike",
                             ToString(node.inputs[0]), DimOf(node), ToString(node.inputs[start])));
  if (length < 0 || length > x[DimOf(node)])
    FailAt(node, fmt::format("expected a window of 0 to {} elements of dim {} of {}, got {}; shorten it",
                             x[DimOf(node)], DimOf(node), ToString(node.inputs[0]), length));
}

void InferGather(Node& node) {
  CheckInteger(node, 1, "an index");
  CheckFits(node, 1, "an index");
  if (node.attrs.IntOr("inverse", 0)) {
    CheckInteger(node, 2, "an inverse");
    if (ShapeOf(node, 2) != ShapeOf(node, 0))
      FailAt(node,
             fmt::format("expected an inverse of {}, got {}", ToString(ShapeOf(node, 0)), ToString(ShapeOf(node, 2))));
  }
  AddOutput(node, node.inputs[0].dtype(), ShapeOf(node, 1));
}
void InferScatter(Node& node) {
  CheckInteger(node, 1, "an index");
  CheckFits(node, 1, "an index");
  if (ShapeOf(node, 2) != ShapeOf(node, 1) || node.inputs[2].dtype() != node.inputs[0].dtype())
    FailAt(node,
           fmt::format(
               "expected elements of {} {}, the dtype of {} and the shape of the index, got {}; cast or slice them",
               Name(node.inputs[0].dtype()), ToString(ShapeOf(node, 1)), ToString(node.inputs[0]),
               ToString(node.inputs[2])));
  AddOutput(node, node.inputs[0].dtype(), ShapeOf(node, 0));
}
void InferSlice(Node& node) {
  CheckWindow(node, 1, node.attrs.Int("length"));
  Shape shape = ShapeOf(node, 0);
  shape[DimOf(node)] = node.attrs.Int("length");
  AddOutput(node, node.inputs[0].dtype(), std::move(shape));
}
void InferUpdate(Node& node) {
  CheckFits(node, 1, "an update");
  if (node.inputs[1].dtype() != node.inputs[0].dtype())
    FailAt(node, fmt::format("expected an update of the dtype of {}, got {}; cast it", ToString(node.inputs[0]),
                             ToString(node.inputs[1])));
  CheckWindow(node, 2, ShapeOf(node, 1)[DimOf(node)]);
  AddOutput(node, node.inputs[0].dtype(), ShapeOf(node, 0));
}

// The labels of x, and those of an operand whose `dim` is its own.
struct Labels {
  std::string x, own;
  explicit Labels(const Node& node) : x(Letters(node.inputs[0].rank())), own(x) { own[DimOf(node)] = 'z'; }
  std::string First(const Var& start) const { return x.substr(0, size_t(start.rank())); }
};
// If x is sharded along `dim`, the result is a Partial sum, because a rank without an element contributes 0.
Dims GatherDims(const Node& node) {
  Labels labels(node);
  Dims dims{.in = {labels.x, labels.own}, .out = {labels.own}, .blocked = node.attrs.IntOr("whole", 0) ? "z" : ""};
  if (node.attrs.IntOr("inverse", 0)) dims.in.push_back(labels.x);
  return dims;
}
// Each rank writes those elements that it holds, so it needs all ids.
Dims ScatterDims(const Node& node) {
  Labels labels(node);
  return {.in = {labels.x, labels.own, labels.own}, .out = {labels.x}, .blocked = "z"};
}
Dims SliceDims(const Node& node) {
  Labels labels(node);
  return {.in = {labels.x, labels.First(node.inputs[1])}, .out = {labels.own}};
}
Dims UpdateDims(const Node& node) {
  Labels labels(node);
  return {.in = {labels.x, labels.own, labels.First(node.inputs[2])}, .out = {labels.x}, .blocked = "z"};
}

// Zeros in the placement of x, so that no gradient is larger than x is on a rank.
Var ZerosLike(const Var& x, DType dtype) { return ReshardLike(Full(0, dtype, x.shape()), x); }

// Gather for the derivatives of a scatter, whose x and ids may be sharded along `dim` on one axis.
Var GatherWhole(const Var& x, const Var& index, const GradCall& call) {
  return EmitOne(Op::kGather, {{"dim", call.node->attrs.Int("dim")}, {"whole", 1}}, {x, index}, call.node->loc);
}

Var EmitInvertible(const Var& x, const Var& index, const Var& inverse, int64_t dim, const Loc& loc) {
  return EmitOne(Op::kGather, {{"dim", dim}, {"inverse", 1}}, {x, index, inverse}, loc);
}

void GradGather(GradCall& call) {
  const Var& dy = call.dy[0];
  if (call.node->attrs.IntOr("inverse", 0)) {
    call.dx[0] = EmitInvertible(dy, call.in(2), call.in(1), call.node->attrs.Int("dim"), call.node->loc);
    return;
  }
  call.dx[0] = ScatterAdd(ZerosLike(call.in(0), dy.dtype()), call.in(1), dy, int(DimOf(*call.node)));
}
// Only the last of equal ids was written: it is the one whose position arrives when positions are scattered.
void GradScatter(GradCall& call) {
  const Var &dy = call.dy[0], &index = call.in(1);
  int dim = int(DimOf(*call.node));
  Var zeros = Full(0, dy.dtype(), index.shape());
  Var position = Iota(dim, DType::kI64, index.shape());
  Var last = GatherWhole(Scatter(ZerosLike(call.in(0), DType::kI64), index, position, dim), index, call);
  call.dx[0] = Scatter(dy, index, zeros, dim);
  call.dx[2] = Select(Eq(last, position), GatherWhole(dy, index, call), zeros);
}
void GradScatterAdd(GradCall& call) {
  call.dx[0] = call.dy[0];
  call.dx[2] = GatherWhole(call.dy[0], call.in(1), call);
}
void GradSlice(GradCall& call) {
  const Var& dy = call.dy[0];
  call.dx[0] = DynamicUpdate(ZerosLike(call.in(0), dy.dtype()), dy, call.in(1), int(DimOf(*call.node)));
}
void GradUpdate(GradCall& call) {
  const Var &dy = call.dy[0], &update = call.in(1), &start = call.in(2);
  int dim = int(DimOf(*call.node));
  call.dx[0] = DynamicUpdate(dy, Full(0, dy.dtype(), update.shape()), start, dim);
  call.dx[1] = DynamicSlice(dy, start, dim, update.dim(dim));
}

// Ids repeat, and some lie outside x.
std::vector<Sample> Samples(Op op) {
  std::vector<Sample> samples{{{{{5, 3}}, {{4, 3}, Domain::kIds, 5}}, {{"dim", 0}}},
                              {{{{2, 6}}, {{2, 7}, Domain::kIdsOrIgnored, 6}}, {{"dim", 1}}},
                              {{{{2, 4, 3}}, {{2, 2, 3}, Domain::kIds, 4}}, {{"dim", 1}}}};
  if (op == Op::kGather) {
    samples.push_back({{{{6, 2}}, {{5, 2}, Domain::kIds, 6}}, {{"dim", 0}, {"whole", 1}}});
    return samples;
  }
  for (Sample& s : samples) s.inputs.push_back({s.inputs[1].shape});
  return samples;
}
// Some starts lie past the last window and are clamped.
std::vector<Sample> SamplesSlice(Op) {
  return {{{{{7, 3}}, {{}, Domain::kIds, 7}}, {{"dim", 0}, {"length", 4}}},
          {{{{3, 6, 2}}, {{3}, Domain::kIds, 8}}, {{"dim", 1}, {"length", 2}}},
          {{{{2, 3, 5}}, {{2, 3}, Domain::kIds, 5}}, {{"dim", 2}, {"length", 3}}}};
}
std::vector<Sample> SamplesUpdate(Op) {
  return {{{{{7, 3}}, {{4, 3}}, {{}, Domain::kIds, 7}}, {{"dim", 0}}},
          {{{{3, 6, 2}}, {{3, 1, 2}}, {{3}, Domain::kIds, 8}}, {{"dim", 1}}},
          {{{{2, 3, 5}}, {{2, 3, 3}}, {{2, 3}, Domain::kIds, 5}}, {{"dim", 2}}}};
}

}  // namespace

Var Gather(Var x, Var index, int dim, Loc loc) {
  return EmitOne(Op::kGather, {{"dim", CheckedDim(x, dim, "gather", loc)}}, {x, index}, loc);
}
Var GatherInvertible(Var x, Var index, Var inverse, int dim, Loc loc) {
  return EmitInvertible(x, index, inverse, NormalizeDim(dim, x.rank(), "gather"), loc);
}
Var Scatter(Var x, Var index, Var src, int dim, Loc loc) {
  return EmitOne(Op::kScatter, {{"dim", CheckedDim(x, dim, "scatter", loc)}}, {x, index, src}, loc);
}
Var ScatterAdd(Var x, Var index, Var src, int dim, Loc loc) {
  return EmitOne(Op::kScatterAdd, {{"dim", CheckedDim(x, dim, "scatter_add", loc)}}, {x, index, src}, loc);
}
Var DynamicSlice(Var x, Var start, int dim, int64_t length, Loc loc) {
  Attrs attrs{{"dim", CheckedDim(x, dim, "dynamic_slice", loc)}, {"length", length}};
  return EmitOne(Op::kDynamicSlice, attrs, {x, start}, loc);
}
Var DynamicUpdate(Var x, Var update, Var start, int dim, Loc loc) {
  Attrs attrs{{"dim", CheckedDim(x, dim, "dynamic_update", loc)}};
  return EmitOne(Op::kDynamicUpdate, attrs, {x, update, start}, loc);
}

void RegisterIndexing(OpTable& t) {
  t[size_t(Op::kGather)] = {.op = Op::kGather,
                            .infer = InferGather,
                            .grad = GradGather,
                            .dims = GatherDims,
                            .samples = Samples,
                            .reads_part = true};
  t[size_t(Op::kScatter)] = {.op = Op::kScatter,
                             .infer = InferScatter,
                             .grad = GradScatter,
                             .dims = ScatterDims,
                             .samples = Samples,
                             .replaces = 2};
  t[size_t(Op::kScatterAdd)] = {
      .op = Op::kScatterAdd, .infer = InferScatter, .grad = GradScatterAdd, .dims = ScatterDims, .samples = Samples};
  t[size_t(Op::kDynamicSlice)] = {.op = Op::kDynamicSlice,
                                  .infer = InferSlice,
                                  .grad = GradSlice,
                                  .dims = SliceDims,
                                  .samples = SamplesSlice,
                                  .reads_part = true};
  t[size_t(Op::kDynamicUpdate)] = {.op = Op::kDynamicUpdate,
                                   .infer = InferUpdate,
                                   .grad = GradUpdate,
                                   .dims = UpdateDims,
                                   .samples = SamplesUpdate,
                                   .replaces = 1};
}

}  // namespace weft
