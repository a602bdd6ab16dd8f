// Moves: the collectives of a program that Schedule may move, and the nodes that move with each.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/graph.h"

namespace weft {

// Which collectives move. Interleave has placed all but gathers of weights and reductions of the update.
enum class Moved : uint8_t { kAll, kNotInterleaved };

// A collective to move, with the chain of nodes that leads to it and moves with it. Nodes are positions in the graph.
struct Move {
  int node;
  std::vector<int> chain;  // from the operand on, in order
  int ready;               // the node that the chain starts from; -1: only leaves
  int first_reader;
  int level = 0;  // number of reductions in sequence before it
};

class MoveFinder {
 public:
  MoveFinder(const Graph& graph, Moved moved);
  std::vector<Move> Gathers() const;     // all_gathers of leaves
  std::vector<Move> Reductions() const;  // with levels
  int IndexOf(const Var& v) const { return index_.at(&v.node()); }
  // Returns the positions of what reads a node, in order; the number of nodes if it is an output or written.
  const std::set<int>& ReadersOf(int i) const { return readers_[size_t(i)]; }

 private:
  int size() const { return int(graph_.nodes.size()); }
  const Node& At(int i) const { return *graph_.nodes[size_t(i)]; }
  bool IsLeaf(int i) const { return At(i).op == Op::kLeaf; }
  std::optional<int> OperandOf(int i) const;
  bool ChainTo(int i, std::vector<int>& chain) const;
  std::optional<Move> GatherOf(int i) const;
  std::optional<Move> ReductionOf(int i) const;

  const Graph& graph_;
  Moved moved_;
  absl::flat_hash_map<const Node*, int> index_;
  std::vector<std::set<int>> readers_;  // per node; outputs and writes count as read at the program's end
};

}  // namespace weft
