// Schedule: moves the collectives of a program that runs them at the same time as kernels (Runtime::Overlaps).
//
//   all_gathers of leaves (weights)   together per block, before the first reader of the previous block's gathers
//   reductions                        together per block, as soon as the last of their operands is computed
//   sums of squares of gradients      before the last gradients, for which the norm of all waits
//
// Neighbours run as one call. Such a group is a bucket. Casts and similar nodes that lead to a collective move with it.
// Nothing hides the buckets of the block that computes first and of the one whose gradients come last. So these are
// split: a part is gathered while the first one computes, and reduced while the last one does.
//
// Other collectives, which only serve their next reader, stay where they are, and come before reductions that are ready
// at the same time. Only the order changes, so values keep their bits. The order is the same on all ranks, because
// their programs are the same.
#pragma once
#include "weft/core/ir/local_program.h"
#include "weft/core/passes/schedule/moves.h"

namespace weft {

LocalProgram Schedule(const LocalProgram& program, Moved moved = Moved::kAll);

}  // namespace weft
