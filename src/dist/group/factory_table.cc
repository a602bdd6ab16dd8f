#include "weft/dist/group/factory_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {

void FactoryTable::Add(DeviceKind kind, std::unique_ptr<GroupFactory> factory) {
  factories_[size_t(kind)] = std::move(factory);
}

std::vector<DeviceKind> FactoryTable::kinds() const {
  std::vector<DeviceKind> kinds;
  for (int kind = 0; kind < kNumDeviceKinds; kind++)
    if (factories_[size_t(kind)]) kinds.push_back(DeviceKind(kind));
  return kinds;
}

std::unique_ptr<ProcessGroup> FactoryTable::Make(const std::string& name, const std::vector<int>& ranks,
                                                 DeviceKind kind) {
  std::vector<std::string> known;
  for (DeviceKind k : kinds()) known.push_back(Name(k));
  WEFT_CHECK(factories_[size_t(kind)],
             fmt::format("group \"{}\": nothing here moves {} tensors between ranks; make the mesh for {}", name,
                         Name(kind), fmt::join(known, ", ")));
  return factories_[size_t(kind)]->Make(name, ranks, kind);
}

}  // namespace weft
