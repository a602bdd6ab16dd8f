// Chooses the device of a job: GPUs if every rank gets its own, otherwise the CPU.
#pragma once
#include <optional>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// Chooses the device and, if it is a GPU, adds this rank's GPU to the context. Rank i of a host takes the i-th GPU that
// it sees. nullopt means GPUs if the ranks can have them, otherwise the CPU. A notice gives the reason for the CPU,
// unless no host has an NVIDIA driver. With kCuda, and if every rank has a GPU but NCCL cannot be used, the reason is
// returned as kInvalidArgument. Collective; all ranks get the same result.
absl::StatusOr<DeviceKind> OpenDevice(std::optional<DeviceKind> wanted, Bootstrap& bootstrap, Context& context,
                                      Notices& notices);

}  // namespace weft
