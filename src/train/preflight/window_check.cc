#include "weft/train/preflight/window_check.h"

#include "weft/parallel/step/arena_windows.h"
#include "weft/train/config/config_check.h"

namespace weft {

absl::Status CheckWindows(const Config& config, const StepOptions& options, const StepPlans* plans, DeviceKind device) {
  if (absl::Status s = CheckGather(options, plans, device); !s.ok())
    return RefuseKey(config, "parallel.gather", s.message());
  if (absl::Status s = CheckSymmetric(options, plans, device); !s.ok())
    return RefuseKey(config, "parallel.symmetric_memory", s.message());
  return absl::OkStatus();
}

}  // namespace weft
