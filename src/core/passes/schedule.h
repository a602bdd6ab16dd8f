// Schedule: moves the collectives of a program, for a device that runs them at the same time as kernels.
//
//   all_gathers of leaves (weights)   together per block, before the first reader of the previous block's gathers
//   reductions                        together per block, as soon as the last of their operands is computed
//
// Neighbours run as one call. Such a group is a bucket. Casts and similar nodes that lead to a collective move with it.
// Other collectives, which only serve their next reader, stay where they are. Only the order changes, so values keep
// their bits. The order is the same on all ranks, because their programs are the same. Nothing moves on a device whose
// kernel rows cannot run collectives together (KernelRow::run_many), such as the CPU.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/core/transforms/partition.h"

namespace weft {

LocalProgram Schedule(const LocalProgram& program, const KernelTable& kernels);

}  // namespace weft
