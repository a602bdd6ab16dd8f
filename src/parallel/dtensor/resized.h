// Resized: converts between a rank's storage, which is padded to the chunk size of each dim, and the elements that the
// rank holds.
#pragma once
#include "weft/core/base/tensor.h"

namespace weft {

// Returns a tensor of this shape with the elements that both shapes have, and zeros elsewhere. Copies by way of the
// host. If the shapes are equal, returns the tensor itself, which shares storage. Throws Error if the shapes differ in
// rank.
Tensor Resized(const Tensor& tensor, const Shape& shape);

}  // namespace weft
