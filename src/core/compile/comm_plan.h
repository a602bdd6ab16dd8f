// The communication plan: every call that the collectives of a local program make to their groups, one line per call.
// Lines are never merged. `times` says how often each call runs.
#pragma once
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "weft/core/compile/plan.h"
#include "weft/core/ir/local_program.h"

namespace weft {

struct CommLine {
  Op op;
  int axis;
  std::string axis_name;
  int64_t bytes;  // per rank, as handed to the group: shape x dtype
  Shape shape;    // of a rank's input; a dim that is split is rounded up to whole chunks
  DType dtype;
  Phase phase;
  int times;          // runs per training step
  std::string scope;  // the module path
  std::string line;   // the user's line, "attention.cc:61"
};

// One call to a group, with the shape that a rank hands to it. A dim that the call splits is rounded up to whole
// chunks.
struct GroupCall {
  Op op;
  Shape shape;
  DType dtype;
  int64_t bytes() const { return NumElements(shape) * int64_t(SizeOf(dtype)); }
};
// Returns the calls, in order, that a collective of a local program makes among `ranks` ranks. Without a wire it is one
// call of the collective's own op. With a wire (core/ir/wire.h) a reduce_scatter becomes an all_to_all, and an
// all_reduce becomes an all_to_all and an all_gather.
absl::InlinedVector<GroupCall, 2> GroupCallsOf(const Node& collective, int ranks);

std::vector<CommLine> CommPlan(const LocalProgram& program, int times = 1);
// Returns the calls of a compiled program's collectives in the order in which they are issued.
std::vector<CommLine> CommPlan(const Plan& plan, const MeshShape& mesh, int times = 1);
// Returns a hash of the collectives in order. It must be equal on all ranks, or the job would hang.
uint64_t CommHash(const LocalProgram& program);
// Returns a hash of a compiled program's collectives, of their positions among its steps, and of which are issued
// together.
uint64_t CommHash(const Plan& plan, const Runtime& runtime);
// Whether plans for this runtime may move or join collectives. Otherwise they have the order of the program.
bool ArrangesCollectives(const Runtime& runtime);

}  // namespace weft
