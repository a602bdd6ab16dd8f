// NodeTime: an estimate of how long a local node takes, for passes that compare nodes.
#pragma once
#include "weft/core/ir/node.h"

namespace weft {

// The unit is the time to move one byte in memory. A product computes kFlopsPerByte FLOPs in it. One rate serves all
// devices: within a block, a product takes longer than an elementwise op on any of them, and passes need no more. For a
// collective, the time is that of its operands and results in memory.
constexpr double kFlopsPerByte = 100;
double NodeTime(const Node& node);
// Returns the FLOPs of the node's matrix products on one rank.
double LocalFlops(const Node& node);

}  // namespace weft
