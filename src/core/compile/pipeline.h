// The passes from a graph over global tensors to the plan that a rank runs. Their order is fixed:
//
//   trace -> partition -> combine -> fuse -> recompute -> simplify -> chunk -> interleave -> accumulate -> schedule ->
//   plan
//
// With OverlapMode::kHalves, combine ends with JoinRows.
//
// The interpreter runs the program that partition returns. If passes are verified (core/ir/verify.h), the program is
// verified after each pass. With WEFT_DUMP=DIR in the environment, each pass writes its program to DIR/NAME.STAGE.txt.
#pragma once
#include <string_view>

#include "weft/core/compile/plan.h"
#include "weft/core/passes/recompute.h"
#include "weft/core/transforms/partition.h"

namespace weft {

// Returns the program of a rank. `name` names the program in dumps, for example "step"; with "" it is not dumped.
// Throws Error as Partition does, and if a dump cannot be written.
LocalProgram Lower(const Graph& graph, const PartitionOptions& options, std::string_view name);

// Returns the plan of such a program for the device of `runtime`, whose backends it measures first (measure.h), so that
// all ranks of the mesh must call it. Throws Error if a dump cannot be written.
Plan Compile(const LocalProgram& program, const Runtime& runtime, std::string_view name,
             const RecomputeOptions& recompute = {});

}  // namespace weft
