// Launches that need not wait for the kernel before them to end: from Hopper on, a kernel may start once all blocks of
// the one before have said so (programmatic dependent launch, CUDA programming guide). Its blocks then stand ready, and
// may have read what has been there since before that kernel, when its results come.
//
//   __global__ void First(...) { LetNextStart(); ... }
//   __global__ void Second(...) { ...; AwaitPrevious(); ... }       // every thread waits
//   First<<<...>>>(...);
//   LaunchEarly(DeviceOf(call), "op", &Second, blocks, threads, args...);
//
// Before it waits, Second reads nothing that First writes, and writes nothing that First reads. A kernel that is itself
// started early waits before it lets the next one start.
#pragma once
#include <nv/target>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {

__device__ __forceinline__ void LetNextStart() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}
__device__ __forceinline__ void AwaitPrevious() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}

template <class... Params, class... Args>
void LaunchEarly(CudaDevice& device, const char* name, void (*kernel)(Params...), dim3 blocks, dim3 threads,
                 const Args&... args) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = device.stream();
  config.attrs = &early;
  config.numAttrs = device.kernels_can_wait() ? 1 : 0;
  Check(cudaLaunchKernelEx(&config, kernel, Params(args)...), name);
}

}  // namespace weft::cuda
