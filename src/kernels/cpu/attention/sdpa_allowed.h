// The CPU's only kernels of attention are of the backend `flash`.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cpu {

// Throws Error if SdpaBackends leaves out `flash` for the call.
void CheckFlashAllowed(const KernelCall& call);

}  // namespace weft::cpu
