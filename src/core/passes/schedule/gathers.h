// PlaceGathers: gathers of weights, together per block, before the first reader of the previous block's gathers.
#pragma once
#include <vector>

#include "weft/core/passes/schedule/order.h"

namespace weft {

void PlaceGathers(std::vector<Move> gathers, Order& order);

}  // namespace weft
