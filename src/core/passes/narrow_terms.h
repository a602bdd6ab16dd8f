// NarrowTerms: lets a product write its result in the type in which a reduce_scatter sends it (core/ir/wire.h).
//
//   einsum, wide -> reduce_scatter with a wire    becomes einsum -> reduce_scatter with a wire
//
// The product sums in the accumulate type in any case and rounds once, so that no kernel has to narrow the terms. This
// applies to products of operands of the wire's type that only the reduce_scatter reads, as gradients of weights.
#pragma once
#include "weft/core/ir/local_program.h"

namespace weft {

LocalProgram NarrowTerms(const LocalProgram& program);

}  // namespace weft
