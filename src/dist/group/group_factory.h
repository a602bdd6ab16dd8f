// GroupFactory: makes process groups, for example of in-process ranks, Gloo or NCCL. A mesh asks it for one group per
// axis.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weft/dist/group/process_group.h"

namespace weft {

class GroupFactory {
 public:
  virtual ~GroupFactory() = default;
  // Returns the group of the global `ranks`, which include this rank. Collective over the world: all ranks call Make in
  // the same order with the same name and kind. Each passes the ranks of its own group; the groups of one axis are
  // disjoint and cover the world. Throws Error if the group cannot be made.
  virtual std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks,
                                             DeviceKind kind) = 0;
};

}  // namespace weft
