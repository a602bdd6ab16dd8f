// The device that the ranks of a run take: GPUs where each rank gets one of its own, else the CPU.
#pragma once
#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/train/config/config.h"

namespace weft {

// Adds the GPU of this rank to its context where `device` is cuda or auto: rank i of a host takes the i-th GPU that it
// sees. All ranks call it and take the same kind. Where they cannot have GPUs, auto is the CPU, with a note that says
// why, and cuda is an invalid argument.
absl::StatusOr<DeviceKind> OpenDevice(const Config& config, Bootstrap& bootstrap, Context& context, Notices& notices);

}  // namespace weft
