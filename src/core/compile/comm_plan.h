// The communication plan: every collective of a local program, one line each, never folded but for how often it runs.
#pragma once
#include <string>
#include <vector>

#include "weft/core/compile/plan.h"
#include "weft/core/transforms/partition.h"

namespace weft {

struct CommLine {
  Op op;
  int axis;
  std::string axis_name;
  int64_t bytes;  // per rank, as handed over: shape x dtype
  Shape shape;    // of the input on a rank; where it is split, the dim is rounded up to whole chunks
  DType dtype;
  Phase phase;
  int times;          // runs per training step
  std::string scope;  // the module path
  std::string line;   // where the user wrote it
};

// What a rank hands over to a collective of a local program, among `ranks` ranks: its input; where that is split, the
// dim is rounded up to whole chunks.
Shape HandedOver(const Node& collective, int ranks);

std::vector<CommLine> CommPlan(const LocalProgram& program, int times = 1);
// Those of a compiled program, in the order in which a device is given them.
std::vector<CommLine> CommPlan(const Plan& plan, const MeshShape& mesh, int times = 1);
// A hash of the collectives in order: equal on all ranks, or the job would hang.
uint64_t CommHash(const LocalProgram& program);
// The same of a compiled program, and where they stand among its steps.
uint64_t CommHash(const Plan& plan);

}  // namespace weft
