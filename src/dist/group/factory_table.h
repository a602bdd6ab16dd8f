// FactoryTable: one factory per kind of device, so that one mesh has groups for each kind of tensor: Gloo for the CPU,
// NCCL for GPUs.
#pragma once
#include <array>

#include "weft/dist/group/group_factory.h"

namespace weft {

class FactoryTable final : public GroupFactory {
 public:
  // Uses `factory` for groups of this kind from now on.
  void Add(DeviceKind kind, std::unique_ptr<GroupFactory> factory);
  std::vector<DeviceKind> kinds() const;  // the kinds that have a factory, in enum order; a mesh can be made for these
  // Throws Error if the kind has no factory.
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  std::array<std::unique_ptr<GroupFactory>, kNumDeviceKinds> factories_;
};

}  // namespace weft
