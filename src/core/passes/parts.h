// Parts: values of a program that are in the memory of another value, as packed slices and concats (ops/structural.h).
#pragma once
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/graph.h"
#include "weft/core/passes/replacements.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct Parts {
  absl::flat_hash_set<const Node*> slices;  // they are views of their operands
  absl::flat_hash_set<const Node*> joins;   // concats whose operands are written where the result is
  // By a result (its node and index): the slice over which its kernel writes it, in place.
  absl::flat_hash_map<ValueKey, Var> over;
};

// Whether the elements of the dim are rows that lie one after the other in memory, as no larger dim comes before it.
bool AreRows(const Shape& shape, int64_t dim);
// Whether a kernel writes the node's results to memory of their own, so that they can be rows of a concat.
bool CanBeRows(const Node& node, const KernelTable& kernels);

// A slice is a view, and operands of a concat are written in place, if all kernels that read or write them accept
// slices. Any kernel reads and writes slices and concats of the outermost dim, because rows that follow each other are
// no different from a tensor of their own.
Parts FindParts(const Graph& graph, const KernelTable& kernels);

}  // namespace weft
