// The backends of attention with their functions. plan/sdpa_plan.h chooses among them.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_rows.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {

// cudnn: sdpa_cudnn.cc, or sdpa_no_cudnn.cc in builds without its frontend.
extern const SdpaBackend kCudnnSdpa;
// flash: of bf16 and f16 by sdpa.cu and sdpa_grad.cu; of f32 by sdpa_tf32.cu where products may round their operands,
// by sdpa_f32.cu where they may not. SharedBytes: the shared memory that a block needs, by head size.
void SdpaHalf(const KernelCall& call);
void SdpaGradHalf(const KernelCall& call);
size_t SdpaHalfSharedBytes(int64_t head_size);
size_t SdpaGradHalfSharedBytes(int64_t head_size);
void SdpaTf32(const KernelCall& call);
void SdpaGradTf32(const KernelCall& call);
size_t SdpaTf32SharedBytes(int64_t head_size);
size_t SdpaGradTf32SharedBytes(int64_t head_size);
void SdpaF32(const KernelCall& call);
void SdpaGradF32(const KernelCall& call);
size_t SdpaF32SharedBytes(int64_t head_size);
size_t SdpaGradF32SharedBytes(int64_t head_size);
// plain: sdpa_plain.cu.
void SdpaPlain(const KernelCall& call);
void SdpaGradPlain(const KernelCall& call);

}  // namespace weft::cuda
