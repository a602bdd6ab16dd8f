// The passes from a graph over global tensors to the plan that a rank runs, in the one order that there is:
//
//   trace -> partition -> fuse -> simplify -> schedule -> plan
//
// The interpreter runs the program that partition gives. Where passes are verified (core/ir/verify.h), the program is
// verified after each. With WEFT_DUMP=DIR in the environment each pass writes its program to DIR/NAME.STAGE.txt.
#pragma once
#include <string_view>

#include "weft/core/compile/plan.h"

namespace weft {

// The program of a rank. `name` is the program's in dumps, "step"; an empty one is not dumped. Throws Error as
// Partition does, and when a dump cannot be written.
LocalProgram Lower(const Graph& graph, const PartitionOptions& options, std::string_view name);

// The plan of such a program, for the device of `runtime`.
Plan Compile(const LocalProgram& program, const Runtime& runtime, std::string_view name);

}  // namespace weft
