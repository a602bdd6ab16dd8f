// Copies boxes of elements of any dtype.
#pragma once
#include <span>

#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Copies `from` into `to`. The extents are those of `to`; dim i of `from` matches dim i of `to`, each with its own
// stride.
void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from);
// Copies tensors of one element each into elements of `to` that are `stride` apart.
void CopySingles(const KernelCall& call, const TensorView& to, int64_t stride, std::span<const TensorView> from);
// Writes zeros into the box of `to`.
void ZeroBox(const KernelCall& call, const TensorView& to);

}  // namespace weft::cpu
