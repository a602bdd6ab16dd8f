// Copies and fills boxes of elements of any dtype. Host functions, which launch the kernels that they need.
#pragma once
#include <span>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Copies `from` into `to`. The extents are those of `to`; dim i of `from` matches dim i of `to`, each with its own
// stride.
void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from);
// Does the same as CopyBox, but always by a kernel, so that `from` may span several allocations. The driver copies only
// within one.
void CopyPieces(const KernelCall& call, const TensorView& to, const TensorView& from);
// Copies tensors of one element each into elements of `to` that are `stride` apart, hundreds in one launch.
void CopySingles(const KernelCall& call, const TensorView& to, int64_t stride, std::span<const TensorView> from);
// Fills the box of `to` with `value`, which is one element in host memory.
void FillBox(const KernelCall& call, const TensorView& to, const void* value);
void ZeroBox(const KernelCall& call, const TensorView& to);

}  // namespace weft::cuda
