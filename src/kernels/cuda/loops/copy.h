// Copying and filling boxes of elements, whatever their dtype. Host functions: each launches what it needs.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Copies `from` into `to`: the extents of `to`, the strides of both; from.dim(i) walks with to.dim(i).
void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from);
// The same by a kernel, from a view that may reach over several allocations: the driver copies within one alone.
void CopyPieces(const KernelCall& call, const TensorView& to, const TensorView& from);
// Writes `value`, an element in host memory, all over the box of `to`.
void FillBox(const KernelCall& call, const TensorView& to, const void* value);
void ZeroBox(const KernelCall& call, const TensorView& to);

}  // namespace weft::cuda
