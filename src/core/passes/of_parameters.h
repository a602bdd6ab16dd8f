// OfParameters: which nodes of a local program are computed from parameters and constants only, as gathers of weights.
#pragma once
#include <vector>

#include "weft/core/ir/graph.h"

namespace weft {

std::vector<bool> OfParameters(const Graph& graph);  // one per node

}  // namespace weft
