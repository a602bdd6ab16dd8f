// Groups for planning: they know their size and ranks and move nothing. `weft plan` sizes a program for any mesh with
// them.
#pragma once
#include "weft/dist/group/group_factory.h"

namespace weft {

class PlanGroupFactory final : public GroupFactory {
 public:
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;
};

}  // namespace weft
