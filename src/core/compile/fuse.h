// Fuse: a local program with chains of nodes replaced by the fused ops that a device has kernels for.
//
//   einsum -> + bias -> + residual -> cast    becomes linear
//   norm gradient -> + residual               becomes the norm gradient with one more operand
//   sum over dim 0 -> sum over dim 0          becomes one sum over both, behind a merge
//   the last product and its cross-entropy    become one op (fuse_loss.h)
//
// Only a value that nobody else reads is fused away, so nothing is computed twice. Fused sums round once, in the
// result's dtype, where the chain rounds at each node.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/core/transforms/partition.h"

namespace weft {

LocalProgram Fuse(const LocalProgram& program, const KernelTable& kernels);

}  // namespace weft
