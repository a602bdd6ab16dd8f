#include "weft/core/passes/combine/join_rows.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/equation.h"
#include "weft/core/passes/combine/shared_products.h"
#include "weft/core/passes/made_for.h"
#include "weft/core/passes/parts.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

class RowJoiner {
 public:
  RowJoiner(const LocalProgram& program, const KernelTable& kernels) : program_(program), kernels_(kernels) {
    for (const auto& node : program.graph.nodes) {
      if (IsOfLogits(*node)) of_logits_.insert(node.get());
      for (const Var& in : node->inputs) {
        Uses& uses = uses_[KeyOf(in)];
        uses.readers++;
        uses.parts |= node->op == Op::kConcat;
      }
    }
    for (auto* list : {&program.graph.outputs, &program.graph.writes})
      for (const NamedValue& named : *list) uses_[KeyOf(named.value)].names++;
  }

  LocalProgram Run() {
    Graph result;
    for (const auto& node : program_.graph.nodes) {
      std::shared_ptr<Node> now = IsSum(*node) ? Joined(*node, result) : instead_.WithNewInputs(node);
      if (now != node) instead_.Set(*node, now);
      result.nodes.push_back(std::move(now));
    }
    CarryNames(program_.graph, result, instead_);
    return {RemoveDead(result), program_.mesh, program_.inlined};
  }

 private:
  using Pair = std::array<Var, 2>;
  using Keys = std::array<ValueKey, 2>;
  static Keys KeysOf(const Pair& pair) { return {KeyOf(pair[0]), KeyOf(pair[1])}; }
  struct Uses {
    int readers = 0, names = 0;
    bool parts = false;  // of a concat
  };

  // Whether the node is the gradient of logits, or computed from it before the next product: the gradient through a cap
  // is as large.
  bool IsOfLogits(const Node& node) const {
    return node.op == Op::kCrossEntropyGrad ||
           (node.op != Op::kEinsum &&
            std::ranges::any_of(node.inputs, [this](const Var& in) { return of_logits_.contains(&in.node()); }));
  }

  // Whether the node adds two products that differ in their rows only, and all four operands can be parts.
  bool IsSum(const Node& add) const {
    if (add.op != Op::kAdd) return false;
    const Var &first = add.inputs[0], &second = add.inputs[1];
    bool once = std::ranges::all_of(add.inputs, [&](const Var& term) {
      const Uses& uses = uses_.at(KeyOf(term));
      return term.node().op == Op::kEinsum && uses.readers == 1 && uses.names == 0 &&
             term.dtype() == add.outputs[0].dtype;
    });
    if (!once || first == second || first.node().attrs != second.node().attrs) return false;
    Equation eq(first.node().attrs.Text("eq"));
    if (eq.a.empty() || eq.b.empty() || eq.a[0] != eq.b[0] || eq.out.find(eq.a[0]) != std::string::npos) return false;
    Pair left{first.node().inputs[0], second.node().inputs[0]}, right{first.node().inputs[1], second.node().inputs[1]};
    bool shared = std::ranges::any_of(left, [&](const Var& v) { return v == right[0] || v == right[1]; });
    return !shared && CanJoin(left) && CanJoin(right);
  }
  // A value can be a part of one concat only.
  bool CanJoin(const Pair& pair) const {
    if (joined_.contains(KeysOf(pair))) return true;
    return pair[0] != pair[1] && std::ranges::all_of(pair, [this](const Var& v) { return IsFree(v); }) &&
           Fit({pair[0], pair[1]}, 0, program_.mesh);
  }
  // Whether the value can be a part, and is none yet. The gradient of logits takes their place, or Fuse computes it
  // with the loss. As a part, that of the first half would stay until the other half has its own.
  bool IsFree(const Var& v) const {
    const Uses& uses = uses_.at(KeyOf(v));
    return CanBeRows(v.node(), kernels_) && !of_logits_.contains(&v.node()) && !uses.parts && uses.names == 0;
  }

  std::shared_ptr<Node> Joined(const Node& add, Graph& result) {
    const Node &first = add.inputs[0].node(), &second = add.inputs[1].node();
    std::array<Var, 2> operands;
    for (size_t k = 0; k < 2; k++) operands[k] = Rows({first.inputs[k], second.inputs[k]}, add, result);
    return MadeFor(add, Op::kEinsum, first.attrs, operands, add.outputs[0]);
  }
  // Returns both as one value. Products that read the same pair share it.
  Var Rows(const Pair& pair, const Node& add, Graph& result) {
    Var& joined = joined_[KeysOf(pair)];
    if (joined.defined()) return joined;
    for (const Var& part : pair) uses_.at(KeyOf(part)).parts = true;
    Pair now{instead_.Now(pair[0]), instead_.Now(pair[1])};
    auto made = MadeFor(add, Op::kConcat, {{"dim", 0}, {"packed", 0}}, now, JoinedInfo({now[0], now[1]}, 0));
    result.nodes.push_back(made);
    return joined = Var(made, 0);
  }

  const LocalProgram& program_;
  const KernelTable& kernels_;
  absl::flat_hash_map<ValueKey, Uses> uses_;
  absl::flat_hash_set<const Node*> of_logits_;
  absl::flat_hash_map<Keys, Var> joined_;
  Replacements instead_;
};

}  // namespace

LocalProgram JoinRows(const LocalProgram& program, const KernelTable& kernels) {
  LocalProgram joined = RowJoiner(program, kernels).Run();
  if (VerifiesPasses()) VerifyLocal(joined.graph, joined.mesh);
  return joined;
}

}  // namespace weft
