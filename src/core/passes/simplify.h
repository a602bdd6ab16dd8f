// Simplify: removes work from a local program that is done twice or has no effect. Every value keeps its bits.
//
//   a node like an earlier one of its phase                  that node, unless a large value would live on for it
//   cast to its own type, scale by 1, identity permute       the operand
//   cast, scale, add_scalar of a constant                    a constant
//
// Phases stay apart, so that a value that the backward pass computes again need not live since the forward pass.
// For the same reason a value that nothing reads any more is computed again if it is larger than what it is computed
// from: the blocks of attention's second derivatives have the same masks and scores twice.
// Collectives stay as they are, because all ranks count them.
#pragma once
#include "weft/core/ir/local_program.h"

namespace weft {

LocalProgram Simplify(const LocalProgram& program);

}  // namespace weft
