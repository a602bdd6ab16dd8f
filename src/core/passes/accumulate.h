// Accumulate: adds each gradient to its accumulator as soon as it is computed.
//
// A program sums its gradients after the backward pass. Until then each gradient would live, or, where a product adds
// to the accumulator itself (Fuse), the operands of that product: the activations of all blocks. So nodes of forward
// and backward pass that read an entry which the program writes, and which is no parameter, move to directly after
// their last operand. Collectives that are neighbours stay neighbours. Only the order changes, so values keep their
// bits.
#pragma once
#include "weft/core/ir/local_program.h"

namespace weft {

LocalProgram Accumulate(const LocalProgram& program);

}  // namespace weft
