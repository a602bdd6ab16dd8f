// The backends of attention on CUDA, and which of them takes a call: the first that does not refuse it. Host code
// without CUDA: a plan chooses by shapes and dtypes; a run asks the device as well (attention/sdpa_choice.cc), and
// gives the backends their functions.
//
// The backend that the context's numerics name is asked first; where they name none, the one of WEFT_SDPA, for tests.
#pragma once
#include <span>
#include <string>

#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

inline bool IsSdpaGrad(const KernelCall& call) { return call.in.size() == 6; }

struct SdpaBackend {
  const char* name;
  // Why it cannot or may not run this call, e.g. "head size 100 is not a multiple of 8"; empty: it can.
  std::string (*refuses)(const KernelCall&);
  size_t (*workspace)(const KernelCall&);        // of either pass
  void (*forward)(const KernelCall&) = nullptr;  // null in plans, as below
  void (*backward)(const KernelCall&) = nullptr;

  void Run(const KernelCall& call) const { (IsSdpaGrad(call) ? backward : forward)(call); }
};
using SdpaBackends = std::span<const SdpaBackend>;  // the preferred first

// cudnn, flash and plain as far as shapes and dtypes decide.
SdpaBackends PlannedSdpa();

// `scratch`: bytes of workspace that the backend may need; SIZE_MAX while the workspace is being planned.
const SdpaBackend& ChooseSdpa(SdpaBackends backends, const KernelCall& call, size_t scratch);
// Who runs the call and why those asked before do not: "plain (cudnn: f64 is neither bf16 nor f16; flash: ...)".
std::string ExplainSdpa(SdpaBackends backends, const KernelCall& call);
size_t SdpaWorkspace(SdpaBackends backends, const KernelCall& call);

// What of the above is asked of each backend by shapes and dtypes.
std::string FlashRefusesShape(const KernelCall& call);
std::string PlainRefuses(const KernelCall& call);
// Of flash and plain: the rows of the backward pass.
size_t SdpaRowsWorkspace(const KernelCall& call);
inline bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

}  // namespace weft::cuda
