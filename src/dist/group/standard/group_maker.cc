#include "weft/dist/group/standard/group_maker.h"

#include "weft/dist/group/gloo/gloo_group.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {

namespace {

std::unique_ptr<GroupFactory> ForCpu(Bootstrap& bootstrap) {
  if (bootstrap.world_size() == 1) return std::make_unique<LocalGroupFactory>(std::make_shared<LocalWorld>(1), 0);
  return std::make_unique<GlooGroupFactory>(bootstrap, bootstrap.timeout());
}

}  // namespace

std::unique_ptr<FactoryTable> MakeGroupFactory(Bootstrap& bootstrap) {
  auto table = std::make_unique<FactoryTable>();
  table->Add(DeviceKind::kCpu, ForCpu(bootstrap));
  return table;
}

}  // namespace weft
