// Copying boxes of elements, whatever their dtype.
#pragma once
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Copies `from` into `to`: the extents of `to`, the strides of both; from.dim(i) walks with to.dim(i).
void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from);
// Writes zeros into the box of `to`.
void ZeroBox(const KernelCall& call, const TensorView& to);

}  // namespace weft::cpu
