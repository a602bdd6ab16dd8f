// CallCost: the bytes that one kernel call moves and the FLOPs it computes on this rank. Rates such as FLOP/s are
// computed from it.
#pragma once
#include <cstdint>

#include "weft/core/ir/node.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct CallCost {
  // Bytes read and written, counting each element within the extents once. For an op that reads part of an operand
  // (slice, embedding), as much of that operand counts as the op writes.
  int64_t bytes = 0;
  double flops = 0;  // of matrix products, within the extents; 0 for ops without one

  CallCost& operator+=(const CallCost& other);
};

// Returns the cost of `call`, which must be a call of the node's kernel.
CallCost CostOf(const Node& node, const KernelCall& call);

}  // namespace weft
