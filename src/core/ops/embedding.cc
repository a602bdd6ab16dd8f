#include "weft/core/ops/embedding.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void CheckIds(const Node& node, size_t i) {
  DType dtype = node.inputs[i].dtype();
  if (dtype != DType::kI32 && dtype != DType::kI64)
    FailAt(node, fmt::format("expected ids of i32 or i64, got {}; the table comes first, then the ids",
                             ToString(node.inputs[i])));
}
void Infer(Node& node) {
  CheckRank(node, 0, 2);
  CheckIds(node, 1);
  Shape shape = node.inputs[1].shape();
  shape.push_back(node.inputs[0].shape()[1]);
  AddOutput(node, node.inputs[0].dtype(), std::move(shape));
}
void InferGrad(Node& node) {
  CheckIds(node, 0);
  CheckRank(node, 2, 2);
  DType dtype = node.inputs[1].dtype();
  AddOutput(node, node.attrs.IntOr("wide", 0) ? AccumulateType(dtype) : dtype, node.inputs[2].shape());
}

// A table with sharded rows gives a Partial sum, because a rank without an id's row contributes 0.
Dims ForwardDims(const Node& node) {
  std::string ids = Letters(node.inputs[1].rank());
  return {.in = {"vz", ids}, .out = {ids + "z"}, .linear = Linear::kNone};
}
Dims GradDims(const Node& node) {
  std::string ids = Letters(node.inputs[0].rank());
  return {.in = {ids, ids + "z", "vz"}, .out = {"vz"}};
}

void Grad(GradCall& call) {
  Attrs attrs;
  if (call.Widens(0)) attrs.Set({"wide", 1});
  call.dx[0] = EmitOne(Op::kEmbeddingGrad, attrs, {call.in(1), call.dy[0], call.in(0)}, call.node->loc);
}
void GradOfGrad(GradCall& call) {
  call.dx[1] = Embedding(Cast(call.dy[0], call.in(1).dtype()), call.in(0));  // [..., C]
}

std::vector<Sample> Samples(Op) {
  return {{{{{7, 3}}, {{4, 3}, Domain::kIds, 7}}}, {{{{8, 2}}, {{6}, Domain::kIds, 8}}}};
}
std::vector<Sample> SamplesGrad(Op) {
  return {{{{{4, 3}, Domain::kIds, 7}, {{4, 3, 2}}, {{7, 2}, Domain::kShapeOnly}}},
          {{{{6}, Domain::kIds, 8}, {{6, 3}}, {{8, 3}, Domain::kShapeOnly}}, {{"wide", 1}}}};
}

IntegerRange Ids(const Node& node, int) {
  const Shape& table = node.op == Op::kEmbedding ? node.inputs[0].shape() : node.outputs[0].shape;
  return {0, table[0] - 1};
}

}  // namespace

Var Embedding(Var table, Var ids, Loc loc) { return EmitOne(Op::kEmbedding, {}, {table, ids}, loc); }

void RegisterEmbedding(OpTable& t) {
  t[size_t(Op::kEmbedding)] = {.op = Op::kEmbedding,
                               .infer = Infer,
                               .grad = Grad,
                               .dims = ForwardDims,
                               .samples = Samples,
                               .integers = Ids,
                               .reads_part = true};
  t[size_t(Op::kEmbeddingGrad)] = {.op = Op::kEmbeddingGrad,
                                   .infer = InferGrad,
                                   .grad = GradOfGrad,
                                   .dims = GradDims,
                                   .samples = SamplesGrad,
                                   .shape_operand = 2,
                                   .integers = Ids};
}

}  // namespace weft
