// RecomputeChoice: which nodes of the forward pass the backward pass computes again.
#pragma once
#include "absl/container/flat_hash_set.h"
#include "weft/core/passes/recompute.h"

namespace weft {

// Returns nodes of the forward pass. For each of them, every operand is among them too or is kept.
absl::flat_hash_set<const Node*> RecomputeChoice(const Graph& graph, const RecomputeOptions& options);

}  // namespace weft
