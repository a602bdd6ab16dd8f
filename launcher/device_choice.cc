#include "launcher/device_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/dist/group/nccl/nccl_library.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/train/config/config_check.h"

namespace weft {
namespace {

// The GPU that this rank can take, or why there is none.
struct Offer {
  int index = 0;     // of its GPU, among those that it sees
  size_t gpus = 0;   // that it sees
  std::string uuid;  // of its GPU
  absl::Status fault;
};

Offer OfferOf(const Bootstrap& bootstrap) {
  Offer offer;
  NcclLibrary::SetEnvironment(IsOneHost(bootstrap));  // CUDA reads it when it starts
  absl::StatusOr<std::vector<std::string>> gpus = CudaGpus();
  offer.fault = gpus.status();
  if (!offer.fault.ok()) return offer;
  offer.gpus = gpus->size();
  offer.index = bootstrap.local_rank() % int(gpus->size());
  offer.uuid = (*gpus)[size_t(offer.index)];
  return offer;
}

// The first rank's fault, which all ranks hear alike, with the rank that has it; "" where none has one.
std::string FirstFault(const absl::Status& mine, Bootstrap& bootstrap) {
  std::string fault;
  if (!mine.ok())
    fault = fmt::format("rank {} (host {}): {}", bootstrap.rank(), bootstrap.host(), std::string(mine.message()));
  std::vector<std::string> faults = bootstrap.AllGather(fault);
  auto first = std::find_if(faults.begin(), faults.end(), [](const std::string& text) { return !text.empty(); });
  return first == faults.end() ? "" : *first;
}

// The fault where two ranks see the same GPU, in the same words on all ranks; "" where none do.
std::string SharedGpu(const Offer& mine, Bootstrap& bootstrap) {
  std::vector<std::string> uuids = bootstrap.AllGather(mine.uuid);
  std::vector<std::string> hosts =
      bootstrap.AllGather(fmt::format("host {} shows {} GPU{} to {} ranks", bootstrap.host(), mine.gpus,
                                      mine.gpus == 1 ? "" : "s", bootstrap.local_size()));
  for (size_t r = 0; r < uuids.size(); r++) {
    auto other = size_t(std::find(uuids.begin(), uuids.end(), uuids[r]) - uuids.begin());
    if (other != r)
      return fmt::format(
          "device cuda: expected a GPU for each rank, got one for ranks {} and {}: {}; start as many "
          "ranks as there are GPUs, or use device=cpu",
          other, r, hosts[r]);
  }
  return "";
}

// Opens this rank's GPU. What all ranks must have comes one after the other, so that all hear the first lack alike.
std::string OpenOnRanks(Bootstrap& bootstrap, Context& context) {
  Offer mine = OfferOf(bootstrap);
  std::string fault = FirstFault(mine.fault, bootstrap);
  if (fault.empty()) fault = SharedGpu(mine, bootstrap);
  if (!fault.empty()) return fault;
  fault = FirstFault(NcclLibrary::Open(bootstrap.world_size(), IsOneHost(bootstrap)).status(), bootstrap);
  return fault.empty() ? FirstFault(OpenCuda(context, mine.index), bootstrap) : fault;
}

// Whether the ranks are to look for GPUs. Looking for the driver first keeps runs on hosts without one as quick as a
// build without CUDA.
bool LookForGpus(bool automatic, Bootstrap& bootstrap, Notices& notices) {
  bool wanted = !automatic || HasCudaDriver();
  if (bootstrap.world_size() == 1) return wanted;
  std::vector<std::string> lacking = bootstrap.AllGather(wanted ? "" : bootstrap.host());
  auto without = std::find_if(lacking.begin(), lacking.end(), [](const std::string& host) { return !host.empty(); });
  if (without == lacking.end()) return true;
  if (std::count(lacking.begin(), lacking.end(), "") > 0)
    notices.Say(fmt::format("device auto is the CPU: host {} has no NVIDIA driver, and others have one", *without));
  return false;
}

}  // namespace

absl::StatusOr<DeviceKind> OpenDevice(const Config& config, Bootstrap& bootstrap, Context& context, Notices& notices) {
  bool automatic = config.device == DeviceChoice::kAuto;
  if (config.device == DeviceChoice::kCpu || !LookForGpus(automatic, bootstrap, notices)) return DeviceKind::kCpu;
  std::string fault =
      bootstrap.world_size() > 1 ? OpenOnRanks(bootstrap, context) : std::string(OpenCuda(context, 0).message());
  if (fault.empty()) return DeviceKind::kCuda;
  if (!automatic) return absl::InvalidArgumentError(PlaceOf(config, "device") + fault);
  notices.Say("device auto is the CPU: " + fault);
  return DeviceKind::kCpu;
}

}  // namespace weft
