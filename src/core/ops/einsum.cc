#include "weft/core/ops/einsum.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/equation.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

bool HasRepeats(const std::string& labels) {
  for (size_t i = 0; i < labels.size(); i++)
    if (labels.find(labels[i], i + 1) != std::string::npos) return true;
  return false;
}

void CheckLabels(const Node& node, const Equation& e) {
  if (HasRepeats(e.a) || HasRepeats(e.b) || HasRepeats(e.out))
    FailAt(node,
           fmt::format("expected each label once in an operand of \"{}\", got one twice; Gather or Select takes a "
                       "diagonal",
                       node.attrs.Text("eq")));
  for (char l : e.a + e.b) {
    int uses =
        (e.a.find(l) != std::string::npos) + (e.b.find(l) != std::string::npos) + (e.out.find(l) != std::string::npos);
    if (uses < 2)
      FailAt(node, fmt::format("expected label '{}' of \"{}\" in two of the operands and the result, got it in one; "
                               "ReduceSum that dim first",
                               l, node.attrs.Text("eq")));
  }
  for (char l : e.out)
    if (e.a.find(l) == std::string::npos && e.b.find(l) == std::string::npos)
      FailAt(node,
             fmt::format("expected label '{}' of the result of \"{}\" in an operand, got it in none; Broadcast adds "
                         "a dim",
                         l, node.attrs.Text("eq")));
}

void Infer(Node& node) {
  if (const std::string& eq = node.attrs.Text("eq"); !Equation::Holds(eq))
    FailAt(node, fmt::format("expected an equation like \"ab,bc->ac\" for {} and {}, got \"{}\"; name the dims of both "
                             "operands and of the result",
                             ToString(node.inputs[0]), ToString(node.inputs[1]), eq));
  Equation e(node.attrs.Text("eq"));
  CheckRank(node, 0, int(e.a.size()));
  CheckRank(node, 1, int(e.b.size()));
  CheckLabels(node, e);
  const Var &a = node.inputs[0], &b = node.inputs[1];
  if (a.dtype() != b.dtype() || !IsFloating(a.dtype()))
    FailAt(node, fmt::format("expected two operands of one floating dtype, got {} and {}; cast one of them",
                             ToString(a), ToString(b)));
  for (size_t i = 0; i < e.a.size(); i++)
    if (size_t j = e.b.find(e.a[i]); j != std::string::npos && a.shape()[i] != b.shape()[j])
      FailAt(node, fmt::format("expected one extent of label '{}' of \"{}\", got {} in operand 0, {}, and {} in "
                               "operand 1, {}; permute, slice or rename",
                               e.a[i], node.attrs.Text("eq"), a.shape()[i], ToString(a), b.shape()[j], ToString(b)));
  Shape shape;
  for (char l : e.out) {
    size_t i = e.a.find(l);
    shape.push_back(i != std::string::npos ? a.shape()[i] : b.shape()[e.b.find(l)]);
  }
  AddOutput(node, node.attrs.IntOr("wide", 0) ? AccumulateType(a.dtype()) : a.dtype(), std::move(shape));
}

Dims EinsumDims(const Node& node) {
  Equation e(node.attrs.Text("eq"));
  return {.in = {e.a, e.b}, .out = {e.out}, .linear = Linear::kEach};
}

// Returns the gradient of operand i: the product of dy and operand 1 - i, summed over the labels that operand i lacks.
Var GradOf(const GradCall& call, int i, const std::string& eq) {
  Attrs attrs{{"eq", eq}};
  if (call.Widens(i))
    attrs.Set({"wide", 1});
  else if (call.parameter_sums == call.in(i).dtype() && call.in(i).node().parameter_chain)
    attrs.Set({"narrow", 1});
  return EmitOne(Op::kEinsum, attrs, {Cast(call.dy[0], call.in(i).dtype()), call.in(1 - i)}, call.node->loc);
}
void Grad(GradCall& call) {
  Equation e(call.node->attrs.Text("eq"));
  call.dx[0] = GradOf(call, 0, e.out + "," + e.b + "->" + e.a);
  call.dx[1] = GradOf(call, 1, e.out + "," + e.a + "->" + e.b);
}

std::vector<Sample> Samples(Op) {
  return {{{{{4, 3, 6}}, {{6, 5}}}, {{"eq", "btc,cn->btn"}}},
          {{{{5, 6}}, {{6, 4, 3}}}, {{"eq", "bc,chd->bhd"}}},
          {{{{3, 5, 2}}, {{3, 4, 2}}}, {{"eq", "bid,bjd->bij"}}},
          {{{{4, 3, 6}}, {{4, 3, 5}}}, {{"eq", "btc,btn->cn"}, {"wide", 1}}}};
}

}  // namespace

Var Einsum(std::string eq, Var a, Var b, Loc loc) { return EmitOne(Op::kEinsum, {{"eq", std::move(eq)}}, {a, b}, loc); }

void RegisterEinsum(OpTable& t) {
  t[size_t(Op::kEinsum)] = {.op = Op::kEinsum,
                            .infer = Infer,
                            .grad = Grad,
                            .dims = EinsumDims,
                            .samples = Samples,
                            .products = 1,
                            .accumulates = true,
                            .early_operands = true,
                            .by_rows = true};
}

}  // namespace weft
