// SdpaBackends: which backends of attention the calls of Sdpa may use, as PyTorch's sdpa_kernel.
//
//   SdpaBackends allowed({SdpaBackend::kFlash, SdpaBackend::kPlain});
//   Var y = Sdpa(q, k, v, {});   // cuDNN runs neither this call nor its gradient
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "weft/core/base/attrs.h"
#include "weft/core/base/error.h"

namespace weft {

// In the order in which a GPU prefers them, unless it has measured them (kernels/cuda/plan/sdpa_plan.h).
// - kCudnn: cuDNN's attention. PyTorch calls it CUDNN_ATTENTION.
// - kFlash: Weft's tiles with a running softmax. PyTorch has FLASH_ATTENTION and EFFICIENT_ATTENTION for that.
// - kPlain: Weft's simple kernels, which take every call that a GPU can run. PyTorch's MATH has this purpose.
// The CPU has kFlash, which takes every call there, and neither of the others.
enum class SdpaBackend : uint8_t { kCudnn, kFlash, kPlain };
inline constexpr int kNumSdpaBackends = 3;
const char* Name(SdpaBackend backend);  // "cudnn", "flash", "plain"

// While alive, each Sdpa that this thread builds records `allowed`, and so does its gradient, whenever that is built.
// Only these backends run the call, whether it is traced, compiled or eager. Planning or running it throws Error if
// none of them takes its operands; the error has the reason of each. The innermost scope applies and replaces the
// outer ones.
class SdpaBackends {
 public:
  // Throw Error if the list is empty.
  explicit SdpaBackends(std::initializer_list<SdpaBackend> allowed, Loc loc = Loc::current());
  explicit SdpaBackends(std::span<const SdpaBackend> allowed, Loc loc = Loc::current());
  ~SdpaBackends();
  SdpaBackends(const SdpaBackends&) = delete;
  SdpaBackends& operator=(const SdpaBackends&) = delete;

  // The set of the innermost scope of this thread: bit i stands for SdpaBackend(i). Without a scope all bits are set.
  static int64_t Current();

 private:
  int64_t previous_;
};

inline constexpr int64_t kAllSdpaBackends = (int64_t(1) << kNumSdpaBackends) - 1;
// Returns whether the attributes of an Sdpa or SdpaGrad allow the backend.
bool Allows(const Attrs& attrs, SdpaBackend backend);
// Returns the names in a set, "cudnn, flash and plain".
std::string SdpaBackendNames(int64_t set);

}  // namespace weft
