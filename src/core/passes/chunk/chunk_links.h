// Links: who reads what in a program of which some nodes are computed in chunks.
#pragma once
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/local_program.h"
#include "weft/core/passes/chunk/chunk_rows.h"

namespace weft {

// Per node of the program: how it is computed in chunks, or nullopt if it is computed as a whole.
using ChosenChunks = std::span<const std::optional<InChunks>>;

// The readers of each node of a program, and what depends on parameters only. Nodes are positions in the program.
class Links {
 public:
  struct Reader {
    int node;
    size_t operand;
  };
  explicit Links(const LocalProgram& program);

  int size() const { return int(program_.graph.nodes.size()); }
  const Node& At(int i) const { return *program_.graph.nodes[size_t(i)]; }
  int IndexOf(const Var& v) const { return index_.at(&v.node()); }
  std::span<const Reader> readers(int i) const { return readers_[size_t(i)]; }
  int Result(const Reader& r) const { return At(r.node).inputs[r.operand].index(); }  // that it reads
  bool named(int i) const { return named_.contains(i); }                              // an output or a write
  bool of_parameters(int i) const { return of_parameters_[size_t(i)]; }
  // Whether a product of the forward or backward pass waits for it.
  bool serves(int i) const { return serves_[size_t(i)]; }

  // Whether the reader gets chunks of the result that it reads.
  bool GetsChunks(const Reader& r, ChosenChunks chosen) const;
  std::vector<int> Before(int i, ChosenChunks chosen) const;  // the nodes that give chunks to it
  std::vector<int> After(int i, ChosenChunks chosen) const;   // the nodes that get chunks of it
  std::vector<int> Area(int i, ChosenChunks chosen) const;    // the nodes that are linked with it by chunks
  bool IsReadWhole(int i, int result, ChosenChunks chosen) const;
  // Whether the node is a part of a joined product, in chunks, of which the whole is a view too: the product's chunks
  // lie in order, and most of its elements are read as a whole. Otherwise the whole part is a copy of its chunks, and
  // the product lives no longer than them.
  bool IsView(int i, ChosenChunks chosen) const;
  // Whether the chunks of the result need no copy to be a whole value.
  bool LieInOrder(int i, int result, ChosenChunks chosen) const;

 private:
  bool IsPart(int i, ChosenChunks chosen) const;

  const LocalProgram& program_;
  absl::flat_hash_map<const Node*, int> index_;
  std::vector<std::vector<Reader>> readers_;
  absl::flat_hash_set<int> named_;
  std::vector<bool> of_parameters_, serves_;
};

}  // namespace weft
