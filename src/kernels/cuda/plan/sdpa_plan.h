// The attention backends on CUDA. The first one that does not refuse a call takes it. Host code without CUDA. A plan
// chooses by shapes and dtypes. A run also asks the device (attention/sdpa_choice.cc) and sets the backends' functions.
//
// The backend that the context's numerics name is asked first. If they name none, it is the one in WEFT_SDPA, which
// tests set.
#pragma once
#include <span>
#include <string>

#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

inline bool IsSdpaGrad(const KernelCall& call) { return call.out.size() > 2; }

struct SdpaBackend {
  const char* name;
  // Returns why it cannot or may not run this call, for example "head size 100 is not a multiple of 8"; empty if it
  // can.
  std::string (*refuses)(const KernelCall&);
  size_t (*workspace)(const KernelCall&);        // bytes, for either pass
  void (*forward)(const KernelCall&) = nullptr;  // null in plans, as is backward
  void (*backward)(const KernelCall&) = nullptr;

  void Run(const KernelCall& call) const { (IsSdpaGrad(call) ? backward : forward)(call); }
};
using SdpaBackends = std::span<const SdpaBackend>;  // in order of preference

// cudnn, flash and plain as far as shapes and dtypes decide.
SdpaBackends PlannedSdpa();

// Returns the backend that runs the call, and throws Error if none takes it. `scratch` is the bytes of workspace that
// the backend may use, or SIZE_MAX while the workspace is being planned.
const SdpaBackend& ChooseSdpa(SdpaBackends backends, const KernelCall& call, size_t scratch);
// Returns which backend runs the call and why those asked before it do not, for example "plain (cudnn: f64 is neither
// bf16 nor f16; flash: ...)".
std::string ExplainSdpa(SdpaBackends backends, const KernelCall& call);
size_t SdpaWorkspace(SdpaBackends backends, const KernelCall& call);

// Returns whether the call has any option beyond a causal mask, its offset and the scale.
bool HasOptions(const KernelCall& call);
// Return why shapes, dtypes and options rule the backend out, or an empty string if they do not.
std::string FlashRefusesShape(const KernelCall& call);
std::string PlainRefuses(const KernelCall& call);
// The workspace of plain in bytes, the rows of the backward pass; and that of flash, which has ranges of segments too.
// Whether flash adds up dQ in any order, and the bytes of these sums in f32.
bool FlashSumsQueries(const KernelCall& call);
size_t QuerySumBytes(const KernelCall& call);
size_t SdpaRowsWorkspace(const KernelCall& call);
size_t FlashWorkspace(const KernelCall& call);
inline bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

}  // namespace weft::cuda
