#include "launcher/doctor/gpu_findings.h"

#include <fmt/format.h>

#include "weft/api/environment/device_choice.h"
#include "weft/core/base/error.h"

namespace weft {
namespace {

// Returns the number of GPUs that this process sees and Weft can use.
int CountGpus(const GpuAccess& access) {
  if (!access.has_driver()) return 0;
  absl::StatusOr<std::vector<std::string>> gpus = access.gpus();
  return gpus.ok() ? int(gpus->size()) : 0;  // the finding about the GPU has the reason
}

// Only two keys of a config need the functions for windows, so a library without them gets a note.
Finding Opened(const NcclLibrary& library) {
  Finding f{.what = "NCCL", .fact = fmt::format("{}, {}", NcclVersionText(library.version()), library.Path())};
  absl::Status windows = library.HasWindows();
  if (windows.ok()) return f;
  f.grade = Finding::kWarning;
  f.remedy = fmt::format("{}; install another for parallel.gather=copy or parallel.symmetric_memory=true",
                         std::string(windows.message()));
  return f;
}

Finding Unusable(const std::string& fault) { return {.grade = Finding::kFault, .what = "NCCL", .fact = fault}; }

// NCCL connects only ranks of the same version. Collective.
Finding OpenedByAll(Bootstrap& bootstrap, const NcclLibrary& library) {
  std::vector<std::string> versions = bootstrap.AllGather(NcclVersionText(library.version()));
  Finding f = Alike("NCCL", versions, "install the same version on all hosts");
  return f.grade == Finding::kGood ? Opened(library) : f;
}

}  // namespace

Finding ExamineNccl(const GpuAccess& access) {
  int gpus = CountGpus(access);
  if (gpus < 2)
    return {.what = "NCCL",
            .fact = fmt::format("not opened: several ranks on GPUs need one each, and Weft finds {} here",
                                gpus == 1 ? "one" : "none")};
  auto library = access.open_nccl(gpus, true);
  return library.ok() ? Opened(**library) : Unusable(std::string(library.status().message()));
}

std::vector<Finding> ExamineDevices(Bootstrap& bootstrap, const GpuAccess& access) {
  Context context(bootstrap.rank(), bootstrap.world_size(), 1);
  ChosenDevice chosen = ChooseDevice(std::nullopt, bootstrap, context, access);
  Finding devices{.what = "devices", .fact = fmt::format("each of {} ranks has a GPU", bootstrap.world_size())};
  if (chosen.refused) return {devices, Unusable(chosen.reason)};
  if (chosen.kind == DeviceKind::kCuda) {
    auto library = access.open_nccl(bootstrap.world_size(), IsOneHost(bootstrap));  // ChooseDevice has opened it too
    WEFT_CHECK(library.ok(), std::string(library.status().message()));
    return {devices, OpenedByAll(bootstrap, **library)};
  }
  devices.fact = "no host has an NVIDIA driver; runs use the CPU";
  if (chosen.reason.empty()) return {devices};
  devices.grade = Finding::kWarning;
  devices.fact = "device=auto is the CPU, and device=cuda is refused";
  devices.remedy = chosen.reason;
  return {devices};
}

}  // namespace weft
