#include "weft/core/passes/schedule/order.h"

#include <algorithm>
#include <utility>

#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/passes/accumulate.h"

namespace weft {

Order::Order(const Graph& graph, absl::flat_hash_set<int> moves)
    : graph_(graph), moves_(std::move(moves)), written_(WrittenBy(graph)) {
  for (int i = 0; i < size(); i++) positions_.push_back({IsLeaf(i) ? -1 : i, 0, 0});
}

Graph Order::Ordered() const {
  std::vector<int> order(static_cast<size_t>(size()));
  for (int i = 0; i < size(); i++) order[size_t(i)] = i;
  std::ranges::stable_sort(order, [this](int a, int b) { return PositionOf(a) < PositionOf(b); });
  Graph graph = graph_;
  for (size_t i = 0; i < order.size(); i++) graph.nodes[i] = graph_.nodes[size_t(order[i])];
  return graph;
}

bool Order::IsKernel(int i) const {
  const Node& node = At(i);
  return !IsLeaf(i) && !IsAlias(node) && !IsShapeOnly(node) && !IsCollective(node.op);
}

bool Order::Accumulates(int i) const { return ReadsAccumulator(At(i), written_); }

size_t Order::BytesOf(int collective) const {
  const Var& operand = At(collective).inputs[0];
  return weft::BytesOf(operand.node().outputs[size_t(operand.index())]);
}

size_t Order::BytesIn(const Bucket& bucket) const {
  size_t bytes = 0;
  for (const Move& move : bucket) bytes += BytesOf(move.node);
  return bytes;
}

std::vector<Bucket> Order::PartsOf(const Bucket& bucket) const {
  size_t all = BytesIn(bucket), bytes = 0;
  std::vector<Bucket> parts;
  for (const Move& move : bucket) {
    if (parts.empty() || bytes * 8 >= all) parts.emplace_back(), bytes = 0;
    parts.back().push_back(move);
    bytes += BytesOf(move.node);
  }
  return parts;
}

void Order::Place(const std::vector<int>& nodes, Position behind) {
  Position to{behind.slot, behind.depth, ++buckets_};
  for (int node : nodes)
    if (to.depth++; to < PositionOf(node)) positions_[size_t(node)] = to;
}

void Order::Place(const Bucket& bucket, Position behind) {
  buckets_++;
  int depth = behind.depth;
  for (const Move& move : bucket) {
    int at = behind.depth;
    for (int node : move.chain)  // gathers of two passes may share it
      if (Position to{behind.slot, ++at, buckets_}; node > behind.slot && to < PositionOf(node))
        positions_[size_t(node)] = to;
    depth = std::max(depth, at);
  }
  for (const Move& move : bucket) positions_[size_t(move.node)] = {behind.slot, depth + 1, buckets_};
}

}  // namespace weft
