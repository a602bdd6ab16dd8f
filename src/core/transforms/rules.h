// Rules: what the labels of an op's dims mean for shards. Partition and eager DTensor use the same function for every
// op.
#pragma once
#include <span>
#include <vector>

#include "weft/core/ir/record.h"

namespace weft {

struct NodeSharding {
  absl::InlinedVector<Sharding, 3> in;   // the placements that operands must have
  absl::InlinedVector<Sharding, 2> out;  // the placements that results then have
  bool needs_fallback = false;           // a `whole` label is sharded, so the composition must be inlined
};

// Chooses the label that each mesh axis shards, independently per axis. flexible[i] says that operand i is a generator,
// which follows the other operands. Throws Error if operands need two different shards on one axis.
NodeSharding ChooseSharding(const Node& node, const Dims& dims, std::span<const Sharding> have,
                            std::span<const bool> flexible, const MeshShape& mesh);

// One step of a conversion: a collective or local move (collective_row.h), and the sharding after it.
struct Transition {
  Op op;
  int axis;
  int dim = 0;        // the dim that is gathered, scattered or sliced; for AllToAll the dim gathered
  int split_dim = 0;  // AllToAll: the dim that becomes sharded
  ReduceOp reduce = ReduceOp::kSum;
  Sharding after;
};
// Returns the steps from one sharding to another. Each step is the first of these that is possible: local slice,
// reduce_scatter, all_to_all, all_reduce, all_gather from the innermost axis outwards, mask. Throws Error if one kind
// of Partial would have to become another.
std::vector<Transition> PlanTransitions(const Sharding& have, const Sharding& want);

}  // namespace weft
