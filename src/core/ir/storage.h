// The storage of values in a local graph.
#pragma once
#include <cstddef>

#include "weft/core/ir/node.h"

namespace weft {

// Whether the op's result is its operand's storage, perhaps with another shape.
bool IsAlias(const Node& local);
// Whether the node is the placeholder of a shape operand, which has dims and a placement but no data.
bool IsShapeOnly(const Node& local);
size_t BytesOf(const ValueInfo& info);  // of the storage (capacities)

}  // namespace weft
