// Partition: turns a program over global tensors into the program that each rank runs, with collectives where
// placements differ.
//
//   LocalProgram local = Partition(graph, {.mesh = {{"dp", "tp"}, {2, 2}}});
#pragma once
#include "weft/core/ir/local_program.h"
#include "weft/core/transforms/partitioner.h"

namespace weft {

LocalProgram Partition(const Graph& graph, const PartitionOptions& options);

}  // namespace weft
