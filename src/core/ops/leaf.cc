#include "weft/core/ops/leaf.h"

#include <fmt/format.h>

#include "weft/core/ir/integer_ops.h"
#include "weft/core/ir/wire.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void InferFromAttrs(Node& node) { AddOutput(node, DType(node.attrs.Int("dtype")), node.attrs.Ints("shape")); }
void InferFull(Node& node) {
  InferFromAttrs(node);
  DType dtype = node.outputs[0].dtype;
  double value = node.attrs.Float("value");
  if (!Holds(dtype, value))
    FailAt(node, fmt::format("expected a value that {} holds, got {}; take another dtype", Name(dtype), value));
}
void InferLeaf(Node& node) {
  InferFromAttrs(node);
  CheckShardDims(node, node.outputs[0].shape, node.attrs.Target("placement"));
}
void InferIota(Node& node) {
  InferFromAttrs(node);
  if (IsFloating(node.outputs[0].dtype))
    FailAt(node, fmt::format("expected an integer dtype, got {}; cast the result", Name(node.outputs[0].dtype)));
}
void InferReshard(Node& node) {
  if (node.inputs.size() == 2 && node.inputs[0].shape() != node.inputs[1].shape())
    FailAt(node, fmt::format("cannot take the placement of a value of another shape: {} and {}",
                             ToString(node.inputs[0].shape()), ToString(node.inputs[1].shape())));
  bool has_target = node.inputs.size() == 1 && node.attrs.IntOr("dim", -1) < 0;
  if (has_target) CheckShardDims(node, node.inputs[0].shape(), node.attrs.Target("target"));
  CheckWire(node);
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}

Dims NoInputs(const Node& node) {
  Dims dims;
  dims.out.push_back(Letters(int(node.outputs[0].shape.size())));
  return dims;
}
Dims SameLabels(const Node& node) {
  std::string labels = Letters(node.inputs[0].rank());
  Dims dims;
  dims.in.assign(node.inputs.size(), labels);
  dims.out.push_back(labels);
  dims.linear = Linear::kJoint;
  return dims;
}

// The cotangent of a reshard goes straight to the placement of the reshard's input. In a chain of parameters it keeps
// its placement, and the leaf's stored placement reduces it once.
void GradReshard(GradCall& call) {
  call.dx[0] = call.node->parameter_chain ? call.dy[0] : ReshardLike(call.dy[0], call.in(0));
}
void NoGrad(GradCall&) {}

std::vector<Sample> SamplesFull(Op) {
  return {{{}, {{"value", 1.5}, {"dtype", int(DType::kF64)}, {"shape", Shape{5, 3}}}}};
}
std::vector<Sample> SamplesIota(Op) {
  return {{{}, {{"dim", 0}, {"dtype", int(DType::kI64)}, {"shape", Shape{5, 3}}}},
          {{}, {{"dim", 1}, {"dtype", int(DType::kI32)}, {"shape", Shape{4, 7}}}}};
}
// Leaves compute nothing, and redistribute_test sweeps reshards over every pair of placements.
std::vector<Sample> NoSamples(Op) { return {}; }

Var MakeLeaf(std::string name, DType dtype, Shape shape, const Sharding& placement, bool parameter, const Loc& loc) {
  return EmitOne(Op::kLeaf,
                 {{"name", std::move(name)},
                  {"dtype", int(dtype)},
                  {"shape", std::move(shape)},
                  {"placement", placement},
                  {"parameter", parameter}},
                 {}, loc);
}

}  // namespace

Var Leaf(std::string name, DType dtype, Shape shape, const Sharding& placement, Loc loc) {
  return MakeLeaf(std::move(name), dtype, std::move(shape), placement, false, loc);
}
Var ParameterLeaf(std::string name, DType dtype, Shape shape, const Sharding& placement, Loc loc) {
  return MakeLeaf(std::move(name), dtype, std::move(shape), placement, true, loc);
}
Var Full(double value, DType dtype, Shape shape, Loc loc) {
  return EmitOne(Op::kFull, {{"value", value}, {"dtype", int(dtype)}, {"shape", std::move(shape)}}, {}, loc);
}
Var Iota(int dim, DType dtype, Shape shape, Loc loc) {
  int rank = int(shape.size());
  WEFT_CHECK(dim >= -rank && dim < rank,
             fmt::format("iota at {}: expected a dim in [{}, {}) of {}, got {}; a negative dim counts from the end",
                         ToString(loc), -rank, rank, ToString(shape), dim));
  if (dim < 0) dim += rank;
  return EmitOne(Op::kIota, {{"dim", dim}, {"dtype", int(dtype)}, {"shape", std::move(shape)}}, {}, loc);
}
Var Reshard(Var x, const Sharding& target, Loc loc) { return Reshard(x, target, std::nullopt, loc); }
Var ReshardLike(Var x, Var like, Loc loc) { return ReshardLike(x, like, std::nullopt, loc); }
Var Reshard(Var x, const Sharding& target, std::optional<DType> wire, Loc loc) {
  Attrs attrs{{"target", target}};
  if (wire) attrs.Set({"wire", int(*wire)});
  return EmitOne(Op::kReshard, std::move(attrs), {x}, loc);
}
Var ReshardLike(Var x, Var like, std::optional<DType> wire, Loc loc) {
  Attrs attrs;
  if (wire) attrs.Set({"wire", int(*wire)});
  return EmitOne(Op::kReshard, std::move(attrs), {x, like}, loc);
}

void RegisterLeaf(OpTable& t) {
  t[size_t(Op::kLeaf)] = {.op = Op::kLeaf, .infer = InferLeaf, .grad = NoGrad, .dims = NoInputs, .samples = NoSamples};
  t[size_t(Op::kFull)] = {
      .op = Op::kFull, .infer = InferFull, .grad = NoGrad, .dims = NoInputs, .samples = SamplesFull, .generator = true};
  t[size_t(Op::kIota)] = {
      .op = Op::kIota, .infer = InferIota, .grad = NoGrad, .dims = NoInputs, .samples = SamplesIota, .generator = true};
  t[size_t(Op::kReshard)] = {.op = Op::kReshard,
                             .infer = InferReshard,
                             .grad = GradReshard,
                             .dims = SameLabels,
                             .samples = NoSamples,
                             .shape_operand = 1};
}

}  // namespace weft
