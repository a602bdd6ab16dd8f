// Registers the kernels of the CPU.
//
//   RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft {

// Adds a row for every op but Leaf, Reshard, the collectives, and those fused ops that the CPU runs as their fallback
// (Linear, LinearCrossEntropy and its gradient, the norm gradients with an addition). Opens OpenBLAS (cpu::OpenGemm).
// Throws Error if it is not installed.
void RegisterCpuKernels(KernelTable& table);

}  // namespace weft
