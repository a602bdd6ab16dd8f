// ProfiledBatch: the calls that a profiled program issued together, usually one call, with their time and cost.
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
  size_t first = 0;                   // position of the first call in the plan
  std::span<const Step> steps;        // of the plan; empty: the copies at the end of a program
  std::span<const KernelCall> calls;  // of these steps
  CallCost cost;

  bool is_copies() const { return steps.empty(); }
  const Node& node() const { return *steps[0].node; }  // of the first call
  bool is_collective() const { return !is_copies() && IsCollective(node().op); }
  // Returns the module of the calls, "blocks.3.mlp", or "" if they belong to several.
  std::string scope() const;
};

// Returns the batches in the order in which they were issued.
std::vector<ProfiledBatch> BatchesOf(const RunProfile::ProgramRun& run);

// Returns the members "bytes", "GB/s" and, for products, "flops" and "GFLOP/s" of a JSON object, separated by commas.
std::string RateMembers(const CallCost& cost, int64_t nanoseconds);

}  // namespace weft
