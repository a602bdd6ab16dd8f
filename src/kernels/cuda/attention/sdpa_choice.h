// The backends of attention with their functions. plan/sdpa_plan.h chooses among them.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_rows.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {

// cudnn: in sdpa_cudnn.cc, or in sdpa_no_cudnn.cc for builds without cudnn-frontend.
extern const SdpaKernels kCudnnSdpa;
// Returns the version of the cuDNN that the process has opened, "9.19.0", or "none".
std::string CudnnVersion();
// flash: sdpa.cu and sdpa_grad.cu for bf16 and f16; sdpa_tf32.cu for f32 if products may round their operands to TF32,
// otherwise sdpa_f32.cu. The functions *SharedBytes return the bytes of shared memory that a block needs for a head
// size, without or with options.
void SdpaHalf(const KernelCall& call);
void SdpaGradHalf(const KernelCall& call);
size_t SdpaHalfSharedBytes(int64_t head_size, bool options);
size_t SdpaGradHalfSharedBytes(int64_t head_size, bool options);
void SdpaTf32(const KernelCall& call);
void SdpaGradTf32(const KernelCall& call);
size_t SdpaTf32SharedBytes(int64_t head_size, bool options);
size_t SdpaGradTf32SharedBytes(int64_t head_size, bool options);
void SdpaF32(const KernelCall& call);
void SdpaGradF32(const KernelCall& call);
size_t SdpaF32SharedBytes(int64_t head_size, bool options);
size_t SdpaGradF32SharedBytes(int64_t head_size, bool options);
// plain: in sdpa_plain.cu and sdpa_plain_grad.cu.
void SdpaPlain(const KernelCall& call);
void SdpaGradPlain(const KernelCall& call);

// Returns whether the gradient is computed in one pass over the scores: the pass takes the call, and the device has it.
bool RunsInOnePass(const KernelCall& call);
// Computes dq, dk and dv in one pass. Requires RunsInOnePass.
void GradSdpaInOnePass(const KernelCall& grad_call);

}  // namespace weft::cuda
