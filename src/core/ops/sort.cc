#include "weft/core/ops/sort.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

size_t DimOf(const Node& node) { return size_t(node.attrs.Int("dim")); }

void AddSorted(Node& node, int64_t length) {
  Shape shape = node.inputs[0].shape();
  shape[DimOf(node)] = length;
  AddOutput(node, node.inputs[0].dtype(), shape);
  AddOutput(node, DType::kI64, shape);
}
void Infer(Node& node) { AddSorted(node, node.inputs[0].shape()[DimOf(node)]); }
void InferTopK(Node& node) {
  int64_t k = node.attrs.Int("length"), extent = node.inputs[0].shape()[DimOf(node)];
  if (k < 0 || k > extent)
    FailAt(node, fmt::format("expected k in [0, {}], the extent of dim {} of {}, got {}; change k or the dim", extent,
                             DimOf(node), ToString(node.inputs[0]), k));
  AddSorted(node, k);
}

// The order of a dim depends on all of its elements, so it must not be sharded.
Dims SortDims(const Node& node) {
  std::string in = Letters(node.inputs[0].rank()), out = in;
  if (node.op == Op::kTopK) out[DimOf(node)] = 'z';
  return {.in = {in}, .out = {out, out}, .blocked = in.substr(DimOf(node), 1)};
}

// Each value came from one element.
void Grad(GradCall& call) {
  const Var &x = call.in(0), &dy = call.dy[0];
  Var zeros = ReshardLike(Full(0, dy.dtype(), x.shape()), x);
  call.dx[0] = ScatterAdd(zeros, call.out(1), dy, int(DimOf(*call.node)));
}

std::vector<Sample> Samples(Op op) {
  std::vector<Sample> samples{{{{{5, 3}}}, {{"dim", 0}}}, {{{{4, 6}}}, {{"dim", 1}}}, {{{{2, 7, 3}}}, {{"dim", 1}}}};
  if (op == Op::kSort) samples[1].attrs.Set({"descending", 1});
  if (op == Op::kTopK)
    for (Sample& s : samples) s.attrs.Set({"length", 3});
  return samples;
}

Sorted Emit(Op op, Attrs attrs, const Var& x, int dim, const Loc& loc) {
  attrs.Set({"dim", CheckedDim(x, dim, Name(op), loc)});
  Outputs out = weft::Emit(op, std::move(attrs), {x}, loc);
  return {out[0], out[1]};
}

}  // namespace

Sorted Sort(Var x, int dim, bool descending, Loc loc) {
  return Emit(Op::kSort, {{"descending", descending}}, x, dim, loc);
}
Sorted TopK(Var x, int64_t k, int dim, Loc loc) { return Emit(Op::kTopK, {{"length", k}}, x, dim, loc); }
Sorted CumMax(Var x, int dim, Loc loc) { return Emit(Op::kCumMax, {}, x, dim, loc); }

void RegisterSort(OpTable& t) {
  for (Op op : {Op::kSort, Op::kTopK, Op::kCumMax})
    t[size_t(op)] = {
        .op = op, .infer = op == Op::kTopK ? InferTopK : Infer, .grad = Grad, .dims = SortDims, .samples = Samples};
}

}  // namespace weft
