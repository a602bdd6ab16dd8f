// Resized: between a rank's storage, padded to the chunk size of each dim, and the elements that it really holds.
#pragma once
#include "weft/core/base/tensor.h"

namespace weft {

// The elements that both shapes have, zeros elsewhere. Of equal shapes it is the tensor itself, sharing storage.
Tensor Resized(const Tensor& tensor, const Shape& shape);

}  // namespace weft
