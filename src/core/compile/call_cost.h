// CallCost: what one call of a kernel moves and computes on this rank, by its views. Rates are taken of it.
#pragma once
#include <cstdint>

#include "weft/core/ir/node.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct CallCost {
  // Read and written: each element within the extents once. An op that reads part of an operand (slice, embedding)
  // counts as much of it as it writes.
  int64_t bytes = 0;
  double flops = 0;  // of matrix products, within the extents; 0 for ops without one

  CallCost& operator+=(const CallCost& other);
};

// `call` is one of the node's kernel.
CallCost CostOf(const Node& node, const KernelCall& call);

}  // namespace weft
