// Which steps of a plan may run in one call of KernelRow::run_many.
#pragma once
#include "weft/core/compile/plan.h"

namespace weft {

// A large product runs by itself: its library computes one at a time, and products share a large workspace in turn.
// Products without a workspace are small, so that a launch takes a large part of their time.
inline bool MayJoin(const KernelRow& row, const Step& step) {
  bool product = step.node->op == Op::kEinsum || step.node->op == Op::kLinear;
  return row.run_many && (!product || step.workspace_bytes == 0);
}

}  // namespace weft
