#include "weft/dist/group/standard/group_maker.h"

#include "weft/dist/group/gloo/gloo_group.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/nccl/nccl_factory.h"

namespace weft {

namespace {

std::unique_ptr<GroupFactory> ForCpu(Bootstrap& bootstrap) {
  if (bootstrap.world_size() == 1) return std::make_unique<LocalGroupFactory>(std::make_shared<LocalWorld>(1), 0);
  return std::make_unique<GlooGroupFactory>(bootstrap, bootstrap.timeout());
}

std::unique_ptr<GroupFactory> ForGpus(Bootstrap& bootstrap, StreamedDevice& device) {
  auto library = NcclLibrary::Open(bootstrap.world_size(), IsOneHost(bootstrap));
  WEFT_CHECK(library.ok(), std::string(library.status().message()));
  return std::make_unique<NcclGroupFactory>(*library, bootstrap, device);
}

}  // namespace

std::unique_ptr<FactoryTable> MakeGroupFactory(Bootstrap& bootstrap, const Context* context) {
  auto table = std::make_unique<FactoryTable>();
  table->Add(DeviceKind::kCpu, ForCpu(bootstrap));
  bool gpus = context && context->Has(DeviceKind::kCuda) && bootstrap.world_size() > 1;
  StreamedDevice* device = gpus ? StreamsOf(context->device(DeviceKind::kCuda)) : nullptr;
  if (device) table->Add(DeviceKind::kCuda, ForGpus(bootstrap, *device));
  return table;
}

}  // namespace weft
