// ProductFlops: the FLOPs of an op's matrix products for any extents, for example those that one rank holds.
#pragma once
#include "absl/functional/function_ref.h"
#include "weft/core/ir/node.h"

namespace weft {

// Returns 2 * products * the product of all labels' extents, or 0 for an op without a matrix product. extent(i, d)
// returns the extent of dim d of operand i.
double ProductFlops(const Node& node, absl::FunctionRef<int64_t(size_t, size_t)> extent);

}  // namespace weft
