#include "weft/core/passes/narrow_terms.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/wire.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

class Narrower {
 public:
  explicit Narrower(const LocalProgram& program) : program_(program) {
    const Graph& graph = program.graph;
    for (const auto& node : graph.nodes)
      for (const Var& in : node->inputs) uses_[KeyOf(in)]++;
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) uses_[KeyOf(named.value)]++;
    for (const auto& node : graph.nodes)
      if (SendsWideProduct(*node)) narrowed_.insert(&node->inputs[0].node());
  }

  LocalProgram Run() {
    if (narrowed_.empty()) return program_;
    LocalProgram narrow{{}, program_.mesh, program_.inlined};
    for (const auto& node : program_.graph.nodes) narrow.graph.nodes.push_back(Rewritten(node));
    CarryNames(program_.graph, narrow.graph, now_);
    return narrow;
  }

 private:
  bool SendsWideProduct(const Node& node) const {
    std::optional<DType> wire = node.op == Op::kReduceScatter ? WireOf(node.attrs) : std::nullopt;
    if (!wire || uses_.at(KeyOf(node.inputs[0])) != 1) return false;
    const Node& product = node.inputs[0].node();
    return product.op == Op::kEinsum && product.attrs.IntOr("wide", 0) != 0 && product.inputs[0].dtype() == *wire;
  }

  // Returns the node, or a copy of it that is narrow or reads what has become a copy.
  std::shared_ptr<Node> Rewritten(const std::shared_ptr<Node>& node) {
    std::shared_ptr<Node> now = now_.WithNewInputs(node);
    if (narrowed_.contains(node.get())) {
      if (now == node) now = std::make_shared<Node>(*node);
      now->attrs.Set({"wide", 0});
      now->outputs[0].dtype = now->inputs[0].dtype();
    }
    if (now != node) now_.Set(*node, now);
    return now;
  }

  const LocalProgram& program_;
  absl::flat_hash_map<ValueKey, int> uses_;
  absl::flat_hash_set<const Node*> narrowed_;  // products
  Replacements now_;
};

}  // namespace

LocalProgram NarrowTerms(const LocalProgram& program) { return Narrower(program).Run(); }

}  // namespace weft
