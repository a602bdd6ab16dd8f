// Simplify: removes work from a local program that is done twice or has no effect. Every value keeps its bits.
//
//   a node like an earlier one of its phase                  that node
//   cast to its own type, scale by 1, identity permute       the operand
//   cast, scale, add_scalar of a constant                    a constant
//
// Phases stay apart, so that a value that the backward pass computes again need not live since the forward pass.
// Collectives stay as they are, because all ranks count them.
#pragma once
#include "weft/core/transforms/partition.h"

namespace weft {

LocalProgram Simplify(const LocalProgram& program);

}  // namespace weft
