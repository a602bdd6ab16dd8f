// MinCut: the cheapest set of edges that separates a source from a sink, as the nodes that stay with the source.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// A directed graph with capacities. Nodes are 0 to nodes - 1. It is meant for graphs of some hundred edges: one block
// of a model.
class FlowGraph {
 public:
  static constexpr int64_t kUncuttable = int64_t(1) << 60;

  explicit FlowGraph(int nodes) : edges_of_(size_t(nodes)) {}
  // All capacities but kUncuttable together must be below it.
  void Add(int from, int to, int64_t capacity);
  // Returns, for each node, whether it stays with the source. Among the cheapest cuts this is the one nearest to the
  // source. Uses up the capacities. By shortest augmenting paths (Edmonds and Karp, 1972).
  std::vector<bool> Cut(int source, int sink);

 private:
  struct Edge {
    int to;
    int64_t left;  // capacity that no flow uses; the edge back is at index ^ 1
  };
  std::vector<int> EdgesTo(int source) const;

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
};

}  // namespace weft
