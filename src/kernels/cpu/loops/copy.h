// Copies boxes of elements of any dtype.
#pragma once
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Copies `from` into `to`. The extents are those of `to`; dim i of `from` matches dim i of `to`, each with its own
// stride.
void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from);
// Writes zeros into the box of `to`.
void ZeroBox(const KernelCall& call, const TensorView& to);

}  // namespace weft::cpu
