#include "weft/dist/group/plan_group.h"

#include "weft/core/base/error.h"

namespace weft {
namespace {

class PlanGroup final : public ProcessGroup {
 public:
  PlanGroup(const std::string& name, const std::vector<int>& ranks, DeviceKind kind)
      : ProcessGroup(name, 0, ranks, kind) {}
  ~PlanGroup() override { StopLanes(); }
  void Abort(const std::string&) override {}
  bool takes_blocks() const override { return device_kind() == DeviceKind::kCuda; }  // as NCCL's

 protected:
  void Execute(const Collective&, uint64_t, Deadline) override {
    Fail("a planning mesh has no other ranks to communicate with");
  }
};

}  // namespace

std::unique_ptr<ProcessGroup> PlanGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                     DeviceKind kind) {
  return std::make_unique<PlanGroup>(name, ranks, kind);
}

}  // namespace weft
