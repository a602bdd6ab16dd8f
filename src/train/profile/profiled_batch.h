// ProfiledBatch: what a profiled program issued at once, a call as a rule, with its time and its cost.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "weft/core/compile/call_cost.h"
#include "weft/core/compile/run_profile.h"
#include "weft/core/ir/collective_row.h"

namespace weft {

struct ProfiledBatch {
  RunProfile::Span span;
  size_t first = 0;                   // the position of the first call in the plan
  std::span<const Step> steps;        // of the plan; none: the copies at the end of a program
  std::span<const KernelCall> calls;  // of these steps
  CallCost cost;

  bool is_copies() const { return steps.empty(); }
  const Node& node() const { return *steps[0].node; }  // of the first call
  bool is_collective() const { return !is_copies() && IsCollective(node().op); }
  // The module of all calls, "blocks.3.mlp"; "" where they are of several.
  std::string scope() const;
};

// In the order in which they were issued.
std::vector<ProfiledBatch> BatchesOf(const RunProfile::ProgramRun& run);

// The members "bytes", "GB/s" and, of products, "flops" and "GFLOP/s" of a JSON object, with commas between them.
std::string RateMembers(const CallCost& cost, int64_t nanoseconds);

}  // namespace weft
