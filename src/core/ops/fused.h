// Fused ops: what a device computes in one pass where the closed set would take several. Each is its composition, which
// runs where a device has no kernel for it.
#pragma once
#include "weft/core/base/error.h"

namespace weft {
class Var;

// Linear      eq, bias, residual, wide: einsum(eq, x, w) + bias + residual. Inputs x, w, then the bias (the trailing
//             dims of the result) and the residual (the shape and dtype of the result), each where its attribute is 1.
//             Sums in the accumulate type, which is the result's where wide is 1. Made by Fuse (core/compile/fuse.h)
//             from einsum, add and cast.
// SwiGluGrad  (a, b, dy) -> (da, db) of swiglu(a, b) = silu(a) * b.
#define WEFT_FUSED_OPS(X) X(Linear, "linear") X(SwiGluGrad, "swiglu_grad")

}  // namespace weft
