// Launches that need not wait until the previous kernel ends (programmatic dependent launch, CUDA programming guide).
// From Hopper on, a kernel may start once all blocks of the previous kernel have called LetNextStart. Its blocks are
// then resident when the results of that kernel arrive, and may already have read data that is older than that kernel.
//
//   __global__ void First(...) { LetNextStart(); ... }
//   __global__ void Second(...) { ...; AwaitPrevious(); ... }       // every thread waits
//   First<<<...>>>(...);
//   LaunchEarly(DeviceOf(call), "op", &Second, blocks, threads, args...);
//
// Before it waits, Second must not read what First writes, nor write what First reads. A kernel that is itself launched
// early must wait before it calls LetNextStart. It may wait at its end instead if the next kernel waits before it
// touches any memory (SortAlone of row_sort.cu).
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

// Lets blocks of a kernel have all the dynamic shared memory that the device allows. The limit belongs to the process,
// where other ranks may launch the kernel with other sizes at the same time, so it must not depend on the call.
template <class... Params>
void AllowAllShared(const CudaDevice& device, void (*kernel)(Params...)) {
  cudaFuncAttributes own{};
  WEFT_CUDA(cudaFuncGetAttributes(&own, kernel));
  size_t rest = device.shared_bytes() - own.sharedSizeBytes;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(rest)));
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
