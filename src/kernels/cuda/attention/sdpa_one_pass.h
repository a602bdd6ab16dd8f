// The gradient of attention in one pass over the scores, on Hopper.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Computes dq, dk and dv if the pass takes the call and the device has it. Returns whether it did.
bool GradSdpaInOnePass(const KernelCall& grad_call);

}  // namespace weft::cuda
