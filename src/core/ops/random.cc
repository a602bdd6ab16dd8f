#include "weft/core/ops/random.h"

#include <fmt/format.h>

#include <bit>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void CheckScalars(const Node& node, size_t first) {
  for (size_t i = first; i < first + 2; i++)
    if (node.inputs[i].rank() != 0 || node.inputs[i].dtype() != DType::kI64)
      FailAt(node, fmt::format("operand {} (step or first row) must be an i64 scalar", i));
}
// Kernels draw floats, and would cut them off.
void CheckFloats(const Node& node, DType dtype, const char* fix) {
  if (!IsFloating(dtype)) FailAt(node, fmt::format("expected a dtype of floats, got {}; {}", Name(dtype), fix));
}
void InferRandom(Node& node) {
  CheckScalars(node, 0);
  CheckFloats(node, DType(node.attrs.Int("dtype")), "cast the result");
  AddOutput(node, DType(node.attrs.Int("dtype")), node.attrs.Ints("shape"));
}
void InferDropout(Node& node) {
  CheckScalars(node, 1);
  CheckFloats(node, node.inputs[0].dtype(), "cast the operand");
  if (node.attrs.IntOr("size", 0)) {
    int64_t dim = node.attrs.Int("dim"), start = node.attrs.Int("start"), size = node.attrs.Int("size");
    const Shape& x = node.inputs[0].shape();
    if (dim < 0 || dim >= int64_t(x.size()) || start < 0 || start + x[size_t(dim)] > size)
      FailAt(node, fmt::format("{} cannot be elements [{}, ...) of {} in dim {}", ToString(x), start, size, dim));
  }
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}
Dims RandomDims(const Node& node) { return {.in = {"", ""}, .out = {Letters(int(node.outputs[0].shape.size()))}}; }
Dims DropoutDims(const Node& node) {
  std::string labels = Letters(node.inputs[0].rank());
  return {.in = {labels, "", ""}, .out = {labels}};
}

void NoGrad(GradCall&) {}
// The mask does not depend on x, so the transpose drops the same elements of the cotangent.
void GradDropout(GradCall& call) {
  call.dx[0] = EmitOne(Op::kDropout, call.node->attrs, {call.dy[0], call.in(1), call.in(2)}, call.node->loc);
}

const SampleInput kScalarId{{}, Domain::kIds, 3};
std::vector<Sample> SamplesRandom(Op) {
  auto attrs = [](const char* kind, Shape shape) {
    return Attrs{{"kind", kind}, {"key", int64_t(0x1234567)}, {"dtype", int(DType::kF64)}, {"shape", std::move(shape)}};
  };
  return {{{kScalarId, kScalarId}, attrs("uniform", {5, 6})}, {{kScalarId, kScalarId}, attrs("normal", {7, 3, 5})}};
}
std::vector<Sample> SamplesDropout(Op) {
  Attrs attrs{{"p", 0.4}, {"key", int64_t(0x7654321)}};
  Attrs slice{{"p", 0.4}, {"key", int64_t(0x7654321)}, {"dim", 1}, {"start", 2}, {"size", 6}};
  return {{{{{5, 6}}, kScalarId, kScalarId}, attrs},
          {{{{4, 3, 7}}, kScalarId, kScalarId}, attrs},
          {{{{3, 4, 9}}, kScalarId, kScalarId}, slice}};
}

Var Random(const char* kind, DType dtype, Shape shape, const Loc& loc) {
  Builder& builder = CurrentBuilder();
  int64_t key = std::bit_cast<int64_t>(builder.NextRandomKey());
  return EmitOne(Op::kRandom, {{"kind", kind}, {"key", key}, {"dtype", int(dtype)}, {"shape", std::move(shape)}},
                 {builder.step, builder.first_row}, loc);
}

}  // namespace

Var RandomUniform(DType dtype, Shape shape, Loc loc) { return Random("uniform", dtype, std::move(shape), loc); }
Var RandomNormal(DType dtype, Shape shape, Loc loc) { return Random("normal", dtype, std::move(shape), loc); }

Var Dropout(Var x, double p, Loc loc) {
  Builder& builder = CurrentBuilder();
  CheckAssigned(x, "dropout", loc);
  WEFT_CHECK(IsDropout(p),
             fmt::format("dropout at {}: expected a probability in [0, 1 - 2^-17) for {}, got {}; 0 is none",
                         ToString(loc), ToString(x), p));
  if (p == 0 || builder.options().random_phase != RandomPhase::kTrain) return x;
  int64_t key = std::bit_cast<int64_t>(builder.NextRandomKey());
  return EmitOne(Op::kDropout, {{"p", p}, {"key", key}}, {x, builder.step, builder.first_row}, loc);
}

void RegisterRandom(OpTable& t) {
  t[size_t(Op::kRandom)] = {.op = Op::kRandom,
                            .infer = InferRandom,
                            .grad = NoGrad,
                            .dims = RandomDims,
                            .samples = SamplesRandom,
                            .generator = true};
  t[size_t(Op::kDropout)] = {
      .op = Op::kDropout, .infer = InferDropout, .grad = GradDropout, .dims = DropoutDims, .samples = SamplesDropout};
}

}  // namespace weft
