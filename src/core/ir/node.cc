#include "weft/core/ir/node.h"

namespace weft {

void Var::FailEmpty() {
  Fail("expected a value, got an empty one (a Var that was never assigned); assign it before this line");
}

int64_t Var::dim(int i) const { return shape()[size_t(NormalizeDim(i, rank(), "dim"))]; }

const char* Name(Phase phase) {
  return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "optimizer";
}

Node::~Node() {
  // A chain of a million eager nodes must not recurse a million calls deep, so the outermost destructor drains a
  // worklist.
  static thread_local std::vector<std::shared_ptr<Node>>* worklist = nullptr;
  auto release = [&](std::vector<std::shared_ptr<Node>>& list) {
    for (Var& input : inputs) {
      Var last = std::move(input);  // of a repeated input, the last one may hold the last reference
      if (last.node_ptr().use_count() == 1) list.push_back(last.node_ptr());
    }
    inputs.clear();
  };
  if (worklist) {
    release(*worklist);
    return;
  }
  std::vector<std::shared_ptr<Node>> list;
  release(list);
  if (list.empty()) return;
  worklist = &list;
  while (!list.empty()) {
    std::shared_ptr<Node> last = std::move(list.back());
    list.pop_back();
    last.reset();
  }
  worklist = nullptr;
}

}  // namespace weft
