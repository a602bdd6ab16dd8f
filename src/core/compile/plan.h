// Plan: a local program as a flat list of steps over a static arena. Peak memory is known before the first step.
//
// A value lives from the step that makes it to its last reader. Bytes are shared in four ways:
// - values whose lifetimes do not overlap share bytes;
// - a packed slice is a view of its operand, and the operands of a packed concat are views of its result, if all
//   kernels that read or write them accept slices, or if they are rows that follow each other (core/passes/parts.h);
// - a kernel that works in place may write its result over an operand that is not read again;
// - a State entry is updated in place if its old value is not read after the step that makes the new one, and at that
//   step only by a kernel that works in place.
#pragma once
#include <string>
#include <vector>

#include "weft/core/compile/runtime.h"
#include "weft/core/ir/local_program.h"

namespace weft {

// Where bytes are: in the arena at an offset, or in the storage of a leaf (by name).
struct Place {
  enum Kind : uint8_t { kNone, kArena, kEntry } kind = kNone;
  size_t offset = 0;
  std::string entry;
};
struct PlannedView {
  Place place;
  TensorView view;    // its data pointer is filled in when the plan is bound
  size_t within = 0;  // bytes from the start of the value that it is a slice of; the place's offset has them too
};
struct Step {
  std::shared_ptr<Node> node;
  std::vector<PlannedView> in, out;
  size_t workspace_offset = 0, workspace_bytes = 0;
};
struct Copy {
  PlannedView from, to;
  size_t bytes = 0;
};
struct Plan {
  std::vector<Step> steps;
  std::vector<Copy> copies;  // run after the steps, in order
  std::vector<std::pair<std::string, PlannedView>> outputs;
  std::vector<std::shared_ptr<Node>> leaves;
  size_t arena_bytes = 0;
  size_t fullest = 0;          // the step that reaches arena_bytes; steps.size(): the copies
  size_t workspace_bytes = 0;  // how many of arena_bytes are workspaces at that step
};

Plan MakePlan(const LocalProgram& program, const Runtime& runtime);

// Returns whether steps such as this may run in one call of KernelRow::run_many. A large product runs by itself: its
// library computes one at a time, and products share a large workspace in turn. Products without a workspace are small,
// so that a launch takes a large part of their time.
bool MayJoin(const KernelRow& row, const Step& step);

}  // namespace weft
