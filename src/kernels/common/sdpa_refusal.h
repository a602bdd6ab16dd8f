// The error for an attention call that no backend takes, on any device.
#pragma once
#include <string>

#include "weft/core/ops/sdpa_backends.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

// Why each backend does not run a call, and which of those that SdpaBackends leaves out would run it.
struct SdpaRefusal {
  std::string reasons;  // "cudnn: f32 is neither bf16 nor f16; flash: head size 300 is above 256"
  int64_t others = 0;   // a set, as SdpaBackends::Current
};
// Throws Error with the op, the user's line, the operands, the reasons and what to do. `device` is "a GPU" or "the
// CPU".
[[noreturn]] void RefuseSdpa(const KernelCall& call, const char* device, const SdpaRefusal& refusal);

}  // namespace weft
