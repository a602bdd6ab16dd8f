// Chooses the device of a job: GPUs if every rank gets its own, otherwise the CPU.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "weft/api/environment/gpu_access.h"
#include "weft/core/host/notice.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// The device of all ranks of a job.
struct ChosenDevice {
  DeviceKind kind = DeviceKind::kCpu;
  std::string reason;  // why the ranks get no GPUs; "" if they get them, ask for none, or no host has an NVIDIA driver
  bool refused = false;  // a run ends with the reason, because it asked for GPUs, or each rank has one but NCCL fails
};

// Chooses the device and, if it is a GPU, adds this rank's GPU to the context. Rank i of a host takes the i-th GPU that
// it sees. nullopt means GPUs if the ranks can have them, otherwise the CPU. Collective; all ranks get the same result.
ChosenDevice ChooseDevice(std::optional<DeviceKind> wanted, Bootstrap& bootstrap, Context& context,
                          const GpuAccess& access = {});
// Returns the chosen device. A notice gives the reason for the CPU, if there is one. If the choice is refused, the
// reason is returned as kInvalidArgument.
absl::StatusOr<DeviceKind> OpenDevice(std::optional<DeviceKind> wanted, Bootstrap& bootstrap, Context& context,
                                      Notices& notices);

}  // namespace weft
