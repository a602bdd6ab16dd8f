#include "weft/api/environment/device_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

// The GPU that this rank can take, or the reason why it has none.
struct Offer {
  int index = 0;     // index of the GPU among those that this rank sees
  size_t gpus = 0;   // number of GPUs that this rank sees
  std::string uuid;  // of the GPU
  absl::Status fault;
};

// If a run asks for GPUs, a wrong environment of NCCL is an error before anything is opened. If it does not ask, that
// matters only on hosts with GPUs.
Offer OfferOf(bool automatic, const Bootstrap& bootstrap, const GpuAccess& access) {
  Offer offer;
  if (!automatic) offer.fault = NcclLibrary::CheckEnvironment();
  if (!offer.fault.ok()) return offer;
  absl::StatusOr<std::vector<std::string>> gpus = access.gpus();
  offer.fault = gpus.status();
  if (!offer.fault.ok()) return offer;
  offer.gpus = gpus->size();
  offer.index = bootstrap.local_rank() % int(gpus->size());
  offer.uuid = (*gpus)[size_t(offer.index)];
  return offer;
}

// Returns the fault of the lowest rank that has one, with the name of that rank, or "" if there is none. All ranks
// return the same text. Collective.
std::string FirstFault(const absl::Status& mine, Bootstrap& bootstrap) {
  std::string fault;
  if (!mine.ok())
    fault = fmt::format("rank {} (host {}): {}", bootstrap.rank(), bootstrap.host(), std::string(mine.message()));
  std::vector<std::string> faults = bootstrap.AllGather(fault);
  auto first = std::find_if(faults.begin(), faults.end(), [](const std::string& text) { return !text.empty(); });
  return first == faults.end() ? "" : *first;
}

// Returns an error if two ranks would take the same GPU, or "". All ranks return the same text. Collective.
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

// Why the ranks have no GPUs. `has_gpus`: each has its own, and something else is wrong with the host.
struct Fault {
  std::string text;  // "": none
  bool has_gpus = false;
};

// Opens this rank's GPU. The ranks check one requirement after the other, so that all return the same fault.
Fault OpenOnRanks(bool automatic, Bootstrap& bootstrap, Context& context, const GpuAccess& access) {
  Offer mine = OfferOf(automatic, bootstrap, access);
  std::string fault = FirstFault(mine.fault, bootstrap);
  if (fault.empty()) fault = SharedGpu(mine, bootstrap);
  if (!fault.empty()) return {fault};
  fault = FirstFault(access.open_nccl(bootstrap.world_size(), IsOneHost(bootstrap)).status(), bootstrap);
  if (!fault.empty()) return {fault, true};
  return {FirstFault(access.open_gpu(context, mine.index), bootstrap)};
}

// Returns nullopt if the ranks should look for GPUs, otherwise why not, or "" if no host has a driver. Looking for the
// driver first makes runs on hosts without one as fast as in a build without CUDA.
std::optional<std::string> LackOfDriver(bool automatic, Bootstrap& bootstrap, const GpuAccess& access) {
  bool wanted = !automatic || access.has_driver();
  std::vector<std::string> lacking{wanted ? "" : bootstrap.host()};
  if (bootstrap.world_size() > 1) lacking = bootstrap.AllGather(lacking[0]);
  auto without = std::find_if(lacking.begin(), lacking.end(), [](const std::string& host) { return !host.empty(); });
  if (without == lacking.end()) return std::nullopt;
  if (std::count(lacking.begin(), lacking.end(), "") == 0) return "";
  return fmt::format("host {} has no NVIDIA driver, and others have one", *without);
}

}  // namespace

ChosenDevice ChooseDevice(std::optional<DeviceKind> wanted, Bootstrap& bootstrap, Context& context,
                          const GpuAccess& access) {
  bool automatic = !wanted;
  if (wanted == DeviceKind::kCpu) return {};
  if (std::optional<std::string> lack = LackOfDriver(automatic, bootstrap, access)) return {.reason = *lack};
  Fault fault = bootstrap.world_size() > 1 ? OpenOnRanks(automatic, bootstrap, context, access)
                                           : Fault{std::string(access.open_gpu(context, 0).message())};
  if (fault.text.empty()) return {.kind = DeviceKind::kCuda};
  // A run on the CPU of a host with a GPU for each rank would only be slow.
  return {.reason = fault.text, .refused = !automatic || fault.has_gpus};
}

absl::StatusOr<DeviceKind> OpenDevice(std::optional<DeviceKind> wanted, Bootstrap& bootstrap, Context& context,
                                      Notices& notices) {
  ChosenDevice chosen = ChooseDevice(wanted, bootstrap, context);
  if (chosen.refused) return absl::InvalidArgumentError(chosen.reason);
  if (!chosen.reason.empty()) notices.Say("device auto is the CPU: " + chosen.reason);
  return chosen.kind;
}

}  // namespace weft
