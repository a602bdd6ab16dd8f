// Order: where the nodes of a program go, and what those who place collectives ask about them.
#pragma once
#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/graph.h"
#include "weft/core/passes/schedule/moves.h"

namespace weft {

// The sort key of a node. It comes after node `slot` of the old order. Within a slot, nodes nearer to the leaves, of
// smaller depth, come first.
struct Position {
  int slot = -1, depth = 0, bucket = 0;
  auto operator<=>(const Position&) const = default;
};
using Bucket = std::vector<Move>;  // collectives that begin together

// Whether a collective of `few` bytes, such as that of a norm's weights, is so much smaller than one of `many` that
// what reads it or follows it is too short to hide the larger one.
inline bool IsMuchSmaller(size_t few, size_t many) { return few * 32 < many; }

class Order {
 public:
  // The old order. `moves` are the collectives that will move.
  Order(const Graph& graph, absl::flat_hash_set<int> moves);
  Graph Ordered() const;

  int size() const { return int(graph_.nodes.size()); }
  const Node& At(int i) const { return *graph_.nodes[size_t(i)]; }
  bool IsLeaf(int i) const { return At(i).op == Op::kLeaf; }
  bool IsKernel(int i) const;
  bool Moves(int i) const { return moves_.contains(i); }
  // Whether a node adds to an accumulator.
  bool Accumulates(int i) const;
  size_t BytesOf(int collective) const;  // of its operand
  size_t BytesIn(const Bucket& bucket) const;
  // Cuts a bucket into parts, each as small as it may be with an eighth of the bytes.
  std::vector<Bucket> PartsOf(const Bucket& bucket) const;

  const Position& PositionOf(int i) const { return positions_[size_t(i)]; }
  // Puts nodes after a position, one after the other, unless they come earlier already.
  void Place(const std::vector<int>& nodes, Position behind);
  // Puts the collectives of a bucket after a position. The nodes of their chains that came later go there too.
  void Place(const Bucket& bucket, Position behind);

 private:
  const Graph& graph_;
  absl::flat_hash_set<int> moves_;
  absl::flat_hash_set<std::string> written_;
  std::vector<Position> positions_;
  int buckets_ = 0;
};

}  // namespace weft
