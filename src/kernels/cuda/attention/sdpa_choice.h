// The backends of attention on CUDA, and which of them runs a call: the first that does not refuse it.
//
//   ChooseSdpa(call, call.workspace_bytes).Run(call);  // of sdpa or sdpa_grad
//
// The backend that the context's numerics name is asked first; where they name none, the one of WEFT_SDPA, for tests.
#pragma once
#include <span>
#include <string>

#include "weft/kernels/cuda/attention/sdpa_sizes.h"

namespace weft::cuda {

inline bool IsSdpaGrad(const KernelCall& call) { return call.in.size() == 6; }

struct SdpaBackend {
  const char* name;
  // Why it cannot or may not run this call, e.g. "head size 100 is not a multiple of 8"; empty: it can.
  std::string (*refuses)(const KernelCall&);
  void (*forward)(const KernelCall&);
  void (*backward)(const KernelCall&);
  size_t (*workspace)(const KernelCall&);  // of either pass

  void Run(const KernelCall& call) const { (IsSdpaGrad(call) ? backward : forward)(call); }
};

std::span<const SdpaBackend* const> SdpaBackends();  // the preferred first
// `scratch`: bytes of workspace that it may need; SIZE_MAX while the workspace is being planned.
const SdpaBackend& ChooseSdpa(const KernelCall& call, size_t scratch);
// Who runs the call and why those asked before do not: "plain (cudnn: f64 is neither bf16 nor f16; flash: ...)".
std::string ExplainSdpa(const KernelCall& call);

// What more than one backend asks.
bool IsHalf(DType dtype);

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
