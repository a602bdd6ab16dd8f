// Recompute: lets the backward pass compute values of the forward pass again, so that they need not be kept for it.
//
// Only nodes in repeated modules (block.h) are computed again. What another block reads, such as a block's output, is
// always kept. Values keep their bits, because the same kernels run on the same operands; random ops are functions of
// the step and of global indices. The pass runs after Fuse, so the forward pass is the same in all modes.
#pragma once
#include "weft/core/ir/local_program.h"
#include "weft/core/passes/recompute_options.h"

namespace weft {

LocalProgram Recompute(const LocalProgram& program, const RecomputeOptions& options);

}  // namespace weft
