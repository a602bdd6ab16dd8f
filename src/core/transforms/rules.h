// Rules: what the labels of an op's dims mean for shards. One function for every op, used by Partition and by eager
// DTensor.
#pragma once
#include <span>
#include <vector>

#include "weft/core/ir/record.h"

namespace weft {

struct NodeSharding {
  absl::InlinedVector<Sharding, 3> in;   // the placements that operands must have
  absl::InlinedVector<Sharding, 2> out;  // the placements that results then have
  bool needs_fallback = false;           // a `whole` label is sharded: inline the composition
};

// Chooses, for each mesh axis on its own, the label that the axis shards.
// flexible[i]: operand i is a generator and follows the others. Throws Error for two different shards on one axis.
NodeSharding ChooseSharding(const Node& node, const Dims& dims, std::span<const Sharding> have,
                            std::span<const bool> flexible, const MeshShape& mesh);

// One step of a conversion: an op of collective.h and the sharding after it.
struct Transition {
  Op op;
  int axis;
  int dim = 0;        // the dim gathered, scattered, sliced; for AllToAll the dim gathered
  int split_dim = 0;  // AllToAll: the dim that becomes sharded
  ReduceOp reduce = ReduceOp::kSum;
  Sharding after;
};
// The steps from one sharding to another: local slices first, then reductions, then gathers from the innermost axis
// outwards. Throws Error for a change of one Partial into another.
std::vector<Transition> PlanTransitions(const Sharding& have, const Sharding& want);

}  // namespace weft
