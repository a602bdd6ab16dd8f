#include "weft/core/passes/min_cut.h"

#include <algorithm>
#include <deque>

namespace weft {
namespace {

constexpr int kUnreached = -1, kSource = -2;

}  // namespace

void FlowGraph::Add(int from, int to, int64_t capacity) {
  for (auto [at, edge] : {std::pair{from, Edge{to, capacity}}, {to, Edge{from, 0}}}) {
    edges_of_[size_t(at)].push_back(int(edges_.size()));
    edges_.push_back(edge);
  }
}

// Returns the edge by which a breadth-first search from the source reaches each node.
std::vector<int> FlowGraph::EdgesTo(int source) const {
  std::vector<int> edge_to(edges_of_.size(), kUnreached);
  edge_to[size_t(source)] = kSource;
  for (std::deque<int> queue{source}; !queue.empty(); queue.pop_front())
    for (int e : edges_of_[size_t(queue.front())]) {
      const Edge& edge = edges_[size_t(e)];
      if (edge.left == 0 || edge_to[size_t(edge.to)] != kUnreached) continue;
      edge_to[size_t(edge.to)] = e;
      queue.push_back(edge.to);
    }
  return edge_to;
}

std::vector<bool> FlowGraph::Cut(int source, int sink) {
  std::vector<int> edge_to = EdgesTo(source);
  for (; edge_to[size_t(sink)] != kUnreached; edge_to = EdgesTo(source)) {
    auto along_path = [&](auto fn) {
      for (int e = edge_to[size_t(sink)]; e != kSource; e = edge_to[size_t(edges_[size_t(e ^ 1)].to)]) fn(e);
    };
    int64_t flow = kUncuttable;
    along_path([&](int e) { flow = std::min(flow, edges_[size_t(e)].left); });
    along_path([&](int e) {
      edges_[size_t(e)].left -= flow;
      edges_[size_t(e ^ 1)].left += flow;
    });
  }
  std::vector<bool> with_source(edge_to.size());
  std::transform(edge_to.begin(), edge_to.end(), with_source.begin(), [](int e) { return e != kUnreached; });
  return with_source;
}

}  // namespace weft
