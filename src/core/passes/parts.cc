#include "weft/core/passes/parts.h"

#include <algorithm>
#include <vector>

#include "weft/core/ir/storage.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

using Key = std::pair<const Node*, int>;  // an output of a node
Key KeyOf(const Var& v) { return {&v.node(), v.index()}; }

class PartFinder {
 public:
  PartFinder(const Graph& graph, const KernelTable& kernels) : graph_(graph), kernels_(kernels) {
    for (const auto& node : graph.nodes)
      for (const Var& in : node->inputs) {
        Uses& uses = uses_[KeyOf(in)];
        uses.all++;
        uses.whole += !TakesSlices(*node);
        if (node->op == Op::kSlice && IsPacked(node->attrs)) uses.starts.push_back(node->attrs.Int("packed"));
      }
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) uses_[KeyOf(named.value)].all++, uses_[KeyOf(named.value)].whole++;
  }

  Parts Run() {
    for (const auto& node : graph_.nodes) {
      if (!IsPacked(node->attrs))
        FindOver(*node);
      else if (node->op == Op::kSlice ? UsesOf(Var(node, 0)).whole == 0 : CanJoin(*node))
        (node->op == Op::kSlice ? parts_.slices : parts_.joins).insert(node.get());
    }
    return std::move(parts_);
  }

 private:
  struct Uses {
    int all = 0, whole = 0;                  // readers, and those that take no slices; a name counts as both
    absl::InlinedVector<int64_t, 3> starts;  // where the packed slices begin that read it
  };
  const Uses& UsesOf(const Var& v) const {
    static const Uses none;
    auto it = uses_.find(KeyOf(v));
    return it == uses_.end() ? none : it->second;
  }
  bool TakesSlices(const Node& node) const {
    return !IsAlias(node) && kernels_.Has(node.op) && kernels_.Row(node.op).slices;
  }
  // Besides the concat all readers of its operands take slices.
  bool CanJoin(const Node& concat) const {
    return std::ranges::all_of(concat.inputs,
                               [&](const Var& part) { return TakesSlices(part.node()) && UsesOf(part).whole == 1; });
  }

  // Finds the results that a kernel may write over slices, because it works in place and nothing else reads these.
  void FindOver(const Node& node) {
    if (!TakesSlices(node) || !kernels_.Row(node.op).in_place) return;
    size_t most = std::min({node.inputs.size(), node.outputs.size(), size_t(kernels_.Row(node.op).in_place_outputs)});
    for (size_t k = 0; k < most; k++) {
      const Var& in = node.inputs[k];
      auto made = uses_.find({&node, int(k)});
      bool fits = in.shape() == node.outputs[k].shape && in.dtype() == node.outputs[k].dtype &&
                  (made == uses_.end() || made->second.whole == 0);
      if (fits && parts_.slices.contains(&in.node()) && IsReadOnce(in)) parts_.over.insert({{&node, int(k)}, in});
    }
  }
  // Whether one kernel reads the elements of a slice: all readers of its operand are slices of different elements.
  bool IsReadOnce(const Var& slice) const {
    const Uses& whole = UsesOf(slice.node().inputs[0]);
    return UsesOf(slice).all == 1 && whole.all == int(whole.starts.size()) &&
           std::ranges::count(whole.starts, slice.node().attrs.Int("packed")) == 1;
  }

  const Graph& graph_;
  const KernelTable& kernels_;
  absl::flat_hash_map<Key, Uses> uses_;
  Parts parts_;
};

}  // namespace

Parts FindParts(const Graph& graph, const KernelTable& kernels) { return PartFinder(graph, kernels).Run(); }

}  // namespace weft
