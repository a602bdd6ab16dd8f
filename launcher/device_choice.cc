#include "launcher/device_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/dist/group/nccl/nccl_library.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/train/config/config_check.h"

namespace weft {
namespace {

// What this rank would take, or why it has no GPU.
struct Offer {
  int index = 0;     // of its GPU, among those that it sees
  size_t gpus = 0;   // that it sees
  std::string uuid;  // of its GPU
  absl::Status fault;
};

Offer OfferOf(const Bootstrap& bootstrap) {
  Offer offer;
  // First, for it sets what CUDA reads when it starts.
  bool one_host = bootstrap.local_size() == bootstrap.world_size();
  if (bootstrap.world_size() > 1) offer.fault = NcclLibrary::Open(bootstrap.world_size(), one_host).status();
  absl::StatusOr<std::vector<std::string>> gpus = CudaGpus();
  if (!gpus.ok()) offer.fault = gpus.status();
  if (!offer.fault.ok()) return offer;
  offer.gpus = gpus->size();
  offer.index = bootstrap.local_rank() % int(gpus->size());
  offer.uuid = (*gpus)[size_t(offer.index)];
  return offer;
}

// Why the ranks cannot have GPUs, the same words on all; "" where they can.
std::string FaultOfRanks(const Offer& mine, Bootstrap& bootstrap) {
  std::vector<std::string> faults = bootstrap.AllGather(std::string(mine.fault.message()));
  std::vector<std::string> uuids = bootstrap.AllGather(mine.uuid);
  std::vector<std::string> hosts =
      bootstrap.AllGather(fmt::format("host {} shows {} GPU{} to {} ranks", bootstrap.host(), mine.gpus,
                                      mine.gpus == 1 ? "" : "s", bootstrap.local_size()));
  for (const std::string& fault : faults)
    if (!fault.empty()) return fault;
  for (size_t r = 0; r < uuids.size(); r++) {
    auto other = size_t(std::find(uuids.begin(), uuids.end(), uuids[r]) - uuids.begin());
    if (other != r)
      return fmt::format(
          "device cuda: expected a GPU for each rank, got one for ranks {} and {}: {}; start as many ranks "
          "as there are GPUs, or use device=cpu",
          other, r, hosts[r]);
  }
  return "";
}

}  // namespace

// Looking for the driver first keeps runs on hosts without one as quick as a build without CUDA.
absl::StatusOr<DeviceKind> OpenDevice(const Config& config, Bootstrap& bootstrap, Context& context, Notices& notices) {
  if (config.device == DeviceChoice::kCpu) return DeviceKind::kCpu;
  bool automatic = config.device == DeviceChoice::kAuto;
  bool wanted = !automatic || HasCudaDriver();
  Offer mine;
  std::string fault;
  if (bootstrap.world_size() > 1) {
    std::vector<std::string> wants = bootstrap.AllGather(wanted ? "wanted" : "");
    if (std::count(wants.begin(), wants.end(), "") > 0) return DeviceKind::kCpu;
    mine = OfferOf(bootstrap);
    fault = FaultOfRanks(mine, bootstrap);
  } else if (!wanted) {
    return DeviceKind::kCpu;
  }
  absl::Status opened = fault.empty() ? OpenCuda(context, mine.index) : absl::FailedPreconditionError(fault);
  if (opened.ok()) return DeviceKind::kCuda;
  if (!automatic) return absl::InvalidArgumentError(PlaceOf(config, "device") + std::string(opened.message()));
  notices.Say("device auto is the CPU: " + std::string(opened.message()));
  return DeviceKind::kCpu;
}

}  // namespace weft
