// PlaceSums: sums of squares of gradients, while the last gradients are reduced.
#pragma once
#include "weft/core/passes/schedule/order.h"

namespace weft {

// Kernels wait for the last gradients until the norm of all is known. So the sums over those of earlier blocks are
// computed meanwhile.
void PlaceSums(const MoveFinder& finder, Order& order);

}  // namespace weft
