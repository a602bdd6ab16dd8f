// ProductFlops: the arithmetic of an op's matrix products for any extents, for example those that one rank holds.
#pragma once
#include "absl/functional/function_ref.h"
#include "weft/core/ir/node.h"

namespace weft {

// 2 * products * all labels' extents; extent(i, d) is that of dim d of operand i. 0 for an op without a product.
double ProductFlops(const Node& node, absl::FunctionRef<int64_t(size_t, size_t)> extent);

}  // namespace weft
