// Plan groups: groups that know their size and ranks and move no data. `weft plan` sizes a program for any mesh with
// them. Every collective throws Error.
#pragma once
#include "weft/dist/group/group_factory.h"

namespace weft {

class PlanGroupFactory final : public GroupFactory {
 public:
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;
};

}  // namespace weft
