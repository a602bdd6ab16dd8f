// Accumulate: adds each gradient to its accumulator as soon as it is computed.
//
// A program sums its gradients after the backward pass. Until then each gradient would live, or, where a product adds
// to the accumulator itself (Fuse), the operands of that product: the activations of all blocks. So nodes of forward
// and backward pass that read an entry which the program writes, and which is no parameter, move to directly after
// their last operand. Collectives that are neighbours stay neighbours. Schedule then moves reductions, and what adds
// their results. Only the order changes, so values keep their bits.
#pragma once
#include <string>

#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/local_program.h"

namespace weft {

LocalProgram Accumulate(const LocalProgram& program);

// Returns the names of the entries that a program writes.
absl::flat_hash_set<std::string> WrittenBy(const Graph& graph);
// Whether a node of the forward or backward pass reads an entry among `written` that is no parameter: an accumulator.
bool ReadsAccumulator(const Node& node, const absl::flat_hash_set<std::string>& written);

}  // namespace weft
