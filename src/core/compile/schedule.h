// Schedule: where the collectives of a program stand among its steps, for a device on which they go on beside kernels.
//
//   all_gathers of leaves (weights)   those of a block together, before the first reader of the block before
//   reductions                        those of a block together, as soon as the last of their operands is there
//
// Neighbours run as one call: such a group is a bucket. Operands' casts and the like move with it. What moves bytes
// between ranks only for its next reader stays where it is. Values keep their bits, for only the order changes; it is
// the same on all ranks, as programs are. On a device whose rows run no collectives together (KernelRow::run_many), the
// CPU, nothing moves.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/core/transforms/partition.h"

namespace weft {

LocalProgram Schedule(const LocalProgram& program, const KernelTable& kernels);

}  // namespace weft
