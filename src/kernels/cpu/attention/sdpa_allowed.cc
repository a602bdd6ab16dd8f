#include "weft/kernels/cpu/attention/sdpa_allowed.h"

#include <string>

#include "weft/kernels/common/sdpa_refusal.h"

namespace weft::cpu {

void CheckFlashAllowed(const KernelCall& call) {
  if (Allows(*call.attrs, SdpaBackend::kFlash)) return;
  std::string reasons;
  for (SdpaBackend backend : {SdpaBackend::kCudnn, SdpaBackend::kPlain}) {
    if (!Allows(*call.attrs, backend)) continue;
    reasons += std::string(reasons.empty() ? "" : "; ") + Name(backend) + ": it has kernels for GPUs only";
  }
  RefuseSdpa(call, "the CPU", {.reasons = reasons, .others = int64_t(1) << int(SdpaBackend::kFlash)});
}

}  // namespace weft::cpu
