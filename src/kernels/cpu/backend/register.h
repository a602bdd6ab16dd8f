// The CPU's rows of the kernel table.
//
//   RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft {

// Adds a row for every op but Leaf, Reshard and the collectives. Opens OpenBLAS (cpu::OpenGemm); throws Error when it
// is not installed.
void RegisterCpuKernels(KernelTable& table);

}  // namespace weft
