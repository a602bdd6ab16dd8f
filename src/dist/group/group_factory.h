// GroupFactory: who makes process groups: in-process ranks, Gloo, NCCL. A mesh asks it for one group per axis.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weft/dist/group/process_group.h"

namespace weft {

class GroupFactory {
 public:
  virtual ~GroupFactory() = default;
  // The group of the global `ranks`, of which this rank is one. All ranks of the world call Make in the same order with
  // the same name and kind, each with the ranks of its own group (the groups of one axis are disjoint and cover the
  // world). Throws Error when the group cannot be made.
  virtual std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks,
                                             DeviceKind kind) = 0;
};

}  // namespace weft
