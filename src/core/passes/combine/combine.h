// Combine: products that share an operand become one product, of concatenated weights.
//
//   einsum(x, q), einsum(x, k), einsum(x, v)                 become slices of einsum(x, concat(q, k, v))
//   einsum(dq, q) + einsum(dk, k) + einsum(dv, v)            becomes einsum(concat(dq, dk, dv), concat(q, k, v))
//   einsum(dq, x), einsum(dk, x), einsum(dv, x)              become slices of einsum(concat(dq, dk, dv), x)
//
// So x is read once instead of once per product, and its gradient is written once and rounded once. The slices and the
// gradients dq, dk and dv need no copies, because kernels read and write parts of the combined values in place
// (core/compile/plan.h). Weights that ranks gather are concatenated before that, as shards.
//
// A program in which a gradient depends on another that it would be joined with stays as it is.
//
// All readers of the results must accept slices. Both the products and the sum of their gradients must be there,
// because a program without gradients would copy the weights for little gain.
#pragma once
#include <limits>

#include "weft/core/ir/local_program.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct CombineOptions {
  // Gradients of weights are joined if together they take at most as long as `gradient_bytes` bytes in memory for each
  // byte of the operand that they share (node_time.h). Longer ones stay single, and may run while different collectives
  // do.
  double gradient_bytes = std::numeric_limits<double>::infinity();
};
LocalProgram Combine(const LocalProgram& program, const KernelTable& kernels, const CombineOptions& options = {});

}  // namespace weft
