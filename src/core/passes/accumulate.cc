#include "weft/core/passes/accumulate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

class Mover {
 public:
  explicit Mover(const LocalProgram& program) : program_(program), written_(WrittenBy(program.graph)) {}

  LocalProgram Run() {
    const auto& nodes = program_.graph.nodes;
    for (int i = 0; i < int(nodes.size()); i++) places_[nodes[size_t(i)].get()] = PlaceOf(*nodes[size_t(i)], i);
    LocalProgram moved = program_;
    std::stable_sort(moved.graph.nodes.begin(), moved.graph.nodes.end(),
                     [this](const auto& a, const auto& b) { return places_.at(a.get()) < places_.at(b.get()); });
    return moved;
  }

 private:
  // The index of a node of the old order, and the node's own index if it moves to after that one.
  using Place = std::pair<int, int>;

  Place PlaceOf(const Node& node, int index) const {
    if (node.op == Op::kLeaf) return {-1, index};
    bool updates = ReadsAccumulator(node, written_);
    bool cuts = node.op == Op::kSlice && IsPacked(node.attrs);  // a view, that an update may read
    if (!updates && !cuts) return {index, -1};
    int last = -1;
    for (const Var& x : node.inputs) last = std::max(last, places_.at(&x.node()).first);
    while (IsCollectiveAt(last) && IsCollectiveAt(last + 1)) last++;
    return {std::min(last, index), index};
  }
  bool IsCollectiveAt(int i) const {
    const auto& nodes = program_.graph.nodes;
    return i >= 0 && i < int(nodes.size()) && IsCollective(nodes[size_t(i)]->op);
  }

  const LocalProgram& program_;
  absl::flat_hash_set<std::string> written_;
  absl::flat_hash_map<const Node*, Place> places_;
};

}  // namespace

absl::flat_hash_set<std::string> WrittenBy(const Graph& graph) {
  absl::flat_hash_set<std::string> written;
  for (const NamedValue& write : graph.writes) written.insert(write.name);
  return written;
}

bool ReadsAccumulator(const Node& node, const absl::flat_hash_set<std::string>& written) {
  if (node.phase == Phase::kOptimizer || IsCollective(node.op)) return false;
  return std::ranges::any_of(node.inputs, [&](const Var& x) {
    const Node& leaf = x.node();
    return leaf.op == Op::kLeaf && !leaf.attrs.IntOr("parameter", 0) && written.contains(leaf.attrs.Text("name"));
  });
}

LocalProgram Accumulate(const LocalProgram& program) {
  LocalProgram moved = Mover(program).Run();
  if (VerifiesPasses()) VerifyLocal(moved.graph, moved.mesh);
  return moved;
}

}  // namespace weft
