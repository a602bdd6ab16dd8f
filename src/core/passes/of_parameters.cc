#include "weft/core/passes/of_parameters.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace weft {

std::vector<bool> OfParameters(const Graph& graph) {
  absl::flat_hash_map<const Node*, bool> found;
  std::vector<bool> all;
  for (const auto& node : graph.nodes) {
    bool is = node->op == Op::kLeaf
                  ? node->attrs.IntOr("parameter", 0) != 0
                  : std::ranges::all_of(node->inputs, [&](const Var& in) { return found.at(&in.node()); });
    found[node.get()] = is;
    all.push_back(is);
  }
  return all;
}

}  // namespace weft
