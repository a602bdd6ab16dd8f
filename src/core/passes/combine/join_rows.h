// JoinRows: a sum of two products over different rows becomes one product over all rows.
//
//   einsum(dy0, x0) + einsum(dy1, x1)   becomes einsum(concat(dy0, dy1), concat(x0, x1))
//
// The gradient of a weight is such a sum if a step computes its batch as two halves (OverlapMode::kHalves). One product
// writes the gradient, where two write it, read it and write it again, and rounds it once. The concats need no copies,
// because kernels write their results to where the concats are (core/passes/parts.h). The first half's operands live
// until the second half has its own.
#pragma once
#include "weft/core/ir/local_program.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

LocalProgram JoinRows(const LocalProgram& program, const KernelTable& kernels);

}  // namespace weft
