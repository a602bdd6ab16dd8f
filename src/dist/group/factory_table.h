// FactoryTable: a factory for each kind of device, so that one mesh has groups of whoever moves tensors of each kind
// between ranks: Gloo those of the CPU, NCCL those of GPUs.
#pragma once
#include <array>

#include "weft/dist/group/group_factory.h"

namespace weft {

class FactoryTable final : public GroupFactory {
 public:
  // Groups of this kind are made by `factory` from now on.
  void Add(DeviceKind kind, std::unique_ptr<GroupFactory> factory);
  std::vector<DeviceKind> kinds() const;  // that have one, in their order: what a mesh can be made for
  // Throws Error where the kind has none.
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  std::array<std::unique_ptr<GroupFactory>, kNumDeviceKinds> factories_;
};

}  // namespace weft
