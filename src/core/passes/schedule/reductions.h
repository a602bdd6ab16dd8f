// PlaceReductions: reductions, together per block, as soon as the last of their operands is computed; and kernels that
// add what was reduced to accumulators, when it is likely to be there.
#pragma once
#include <vector>

#include "weft/core/passes/schedule/order.h"

namespace weft {

void PlaceReductions(const std::vector<Move>& reductions, const MoveFinder& finder, Order& order);

}  // namespace weft
