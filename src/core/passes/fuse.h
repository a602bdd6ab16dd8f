// Fuse: replaces chains of nodes in a local program by the fused ops that a device has kernels for.
//
//   einsum -> + bias -> + residual -> cast    becomes linear
//   einsum -> + bias -> gelu -> + residual    becomes linear, and so with the other activations
//   norm gradient -> + residual               becomes the norm gradient with one more operand
//   update of a parameter -> cast             becomes the update with one more result
//   einsum -> gradient of swiglu or gelu      becomes linear_swiglu_grad or linear_gelu_grad, if the options ask for it
//   sum over dim 0 -> sum over dim 0          becomes one sum over both, after a merge
//   the last product and its cross-entropy    become one op (fuse_loss.h)
//   a gradient that is sent in bf16           is written in bf16 by its product (narrow_terms.h)
//
// Products and norms get the attribute `parameter`: operands that the program only reads, as bits.
//
// A value is fused away only if nothing else reads it, so nothing is computed twice. A fused sum rounds once, in the
// result's dtype, while the chain rounds at each node.
#pragma once
#include "weft/core/ir/local_program.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct FuseOptions {
  bool activation_grads = false;  // products take the gradient of an activation with them
};
LocalProgram Fuse(const LocalProgram& program, const KernelTable& kernels, const FuseOptions& options = {});

}  // namespace weft
