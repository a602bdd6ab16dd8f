#include "weft/core/passes/narrow_terms.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/wire.h"

namespace weft {
namespace {

using Key = std::pair<const Node*, int>;  // an output of a node
Key KeyOf(const Var& v) { return {&v.node(), v.index()}; }

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
    for (auto [from, to] :
         {std::pair{&program_.graph.outputs, &narrow.graph.outputs}, {&program_.graph.writes, &narrow.graph.writes}})
      for (const NamedValue& named : *from) to->push_back({named.name, Now(named.value)});
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
    bool narrow = narrowed_.contains(node.get());
    bool same = !narrow && std::ranges::all_of(node->inputs, [&](const Var& in) { return Now(in) == in; });
    if (same) return node;
    auto copy = std::make_shared<Node>(*node);
    for (Var& in : copy->inputs) in = Now(in);
    if (narrow) {
      copy->attrs.Set({"wide", 0});
      copy->outputs[0].dtype = copy->inputs[0].dtype();
    }
    return now_[node.get()] = copy;
  }
  Var Now(const Var& old) const {
    auto it = now_.find(&old.node());
    return it == now_.end() ? old : Var(it->second, old.index());
  }

  const LocalProgram& program_;
  absl::flat_hash_map<Key, int> uses_;
  absl::flat_hash_set<const Node*> narrowed_;  // products
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> now_;
};

}  // namespace

LocalProgram NarrowTerms(const LocalProgram& program) { return Narrower(program).Run(); }

}  // namespace weft
