// cuDNN's attention as far as shapes and dtypes decide: which calls it takes, and its workspace if there is no GPU to
// ask. Host code without CUDA.
#pragma once
#include <string>
#include <vector>

#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// Returns whether the CUDA library of this build has cuDNN's attention. A build without CUDA returns true, because the
// library usually has it. CMake chooses the file that defines it.
bool HasCudnnAttention();

// kCausal: the last query sees all keys, so every key has a query. Masks of kOther are left to flash.
enum class SdpaMask { kNone, kCausal, kOther };
SdpaMask MaskOf(const SdpaSizes& z);
// Returns how many keys a query sees at most, itself included, which is cuDNN's left bound; 0 if no window limits them.
int64_t CudnnLeftBound(const KernelCall& call, const SdpaSizes& z);
bool IsDeterministic(const KernelCall& call);

// Returns why cuDNN cannot take the call, or an empty string if it can as far as the shape decides.
std::string CudnnRefusesShape(const KernelCall& call);

// The calls of cuDNN that compute one call: several for a deterministic gradient of long sequences, and otherwise one.
// Each has some of the KV heads of one sequence, or all heads of some sequences. The first one is the largest.
class CudnnParts {
 public:
  class Part {
   public:
    // Valid while the part lives.
    KernelCall call() const {
      KernelCall call = call_;
      call.in = in_, call.out = out_;
      return call;
    }

   private:
    friend class CudnnParts;
    KernelCall call_;
    std::vector<TensorView> in_, out_;
  };

  explicit CudnnParts(const KernelCall& call);
  int64_t count() const;
  Part operator[](int64_t i) const;

 private:
  const KernelCall& call_;
  int64_t B_, G_, group_;         // of the call; group_: query heads per KV head
  int64_t sequences_, kv_heads_;  // of a part
};

inline constexpr int64_t kCudnnAlign = 256;  // alignment of cuDNN's workspace, in bytes
// Returns whether only the first lengths[b] keys of a sequence are seen.
bool HasLengths(const KernelCall& call);
// Scratch in bytes: lse without gaps in the backward pass, then i32 [2, B] if the call has lengths, then cuDNN's own
// scratch of `own` bytes.
size_t CudnnLseBytes(const KernelCall& call, const SdpaSizes& z);
size_t CudnnLengthBytes(const KernelCall& call, const SdpaSizes& z);
size_t CudnnScratchBytes(const KernelCall& call, const SdpaSizes& z, int64_t own);
// The workspace if cuDNN's own scratch is that of its kernels for sm_90.
size_t CudnnExpectedWorkspace(const KernelCall& call);

}  // namespace weft::cuda
