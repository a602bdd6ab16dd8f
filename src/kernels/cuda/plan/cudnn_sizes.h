// cuDNN's attention as far as shapes and dtypes decide: which calls it takes, and its workspace where there is no GPU
// to ask. Host code without CUDA.
#pragma once
#include <string>

#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// Whether the CUDA library of this build has cuDNN's attention; in a build without CUDA, whether one usually has it.
// CMake chooses the file.
bool HasCudnnAttention();

// Causal: the last query sees all keys, so every key has a query. Other masks are left to flash.
enum class SdpaMask { kNone, kCausal, kOther };
SdpaMask MaskOf(const SdpaSizes& z);
bool IsDeterministic(const KernelCall& call);

// Empty: it takes the call, unless the device says otherwise.
std::string CudnnRefusesShape(const KernelCall& call);

inline constexpr int64_t kCudnnAlign = 256;  // of cuDNN's workspace
// Scratch of the backward pass: lse without gaps, then cuDNN's own. Of the forward pass: cuDNN's own.
size_t CudnnLseBytes(const KernelCall& call, const SdpaSizes& z);
size_t CudnnScratchBytes(const KernelCall& call, const SdpaSizes& z, int64_t own);
// With what its kernels for sm_90 have of their own.
size_t CudnnExpectedWorkspace(const KernelCall& call);

}  // namespace weft::cuda
