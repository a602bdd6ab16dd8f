#include "weft/kernels/cuda/attention/sdpa_choice.h"

#include <fmt/format.h>

#include <cstdlib>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"

namespace weft::cuda {
namespace {

size_t RowsOnly(const KernelCall& call) { return IsSdpaGrad(call) ? SdpaRowsBytes(call) : 0; }

// How flash computes a call.
struct FlashKernels {
  void (*forward)(const KernelCall&);
  void (*backward)(const KernelCall&);
  size_t (*forward_bytes)(int64_t head_size);  // of shared memory
  size_t (*backward_bytes)(int64_t head_size);
};
FlashKernels FlashKernelsOf(const KernelCall& call) {
  if (IsHalf(call.in[0].dtype)) return {SdpaHalf, SdpaGradHalf, SdpaHalfSharedBytes, SdpaGradHalfSharedBytes};
  if (call.context->numerics().tf32) return {SdpaTf32, SdpaGradTf32, SdpaTf32SharedBytes, SdpaGradTf32SharedBytes};
  return {SdpaF32, SdpaGradF32, SdpaF32SharedBytes, SdpaGradF32SharedBytes};
}

std::string FlashRefuses(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent;
  if (!IsHalf(dtype) && dtype != DType::kF32) return fmt::format("{} is none of bf16, f16 and f32", Name(dtype));
  if (IsHalf(dtype) && size % 8) return fmt::format("head size {} is not a multiple of 8", size);
  if (size > 256) return fmt::format("head size {} is above 256", size);
  if (double scale = SdpaSizes(call).scale; scale < 0) return fmt::format("scale {} is negative", scale);
  if (IsHalf(dtype) && !HasAlignedRows(call)) return "an operand's rows are not aligned to 16 bytes";
  if (!call.context->Has(DeviceKind::kCuda)) return {};
  FlashKernels kernels = FlashKernelsOf(call);
  size_t needs = (IsSdpaGrad(call) ? kernels.backward_bytes : kernels.forward_bytes)(size);
  size_t has = DeviceOf(call).shared_bytes();
  if (needs > has) return fmt::format("a block needs {} bytes of shared memory and this GPU has {}", needs, has);
  return {};
}
void Flash(const KernelCall& call) { FlashKernelsOf(call).forward(call); }
void FlashGrad(const KernelCall& call) { FlashKernelsOf(call).backward(call); }
constexpr SdpaBackend kFlash{"flash", FlashRefuses, Flash, FlashGrad, RowsOnly};

std::string PlainRefuses(const KernelCall& call) {
  constexpr int64_t kLargest = 1024;  // four rows of f64 fit the shared memory of every block
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent;
  if (!IsFloating(dtype)) return fmt::format("{} is no floating type; cast q, k and v", Name(dtype));
  if (size > kLargest) return fmt::format("head size {} is above {}; use more and smaller heads", size, kLargest);
  return {};
}
constexpr SdpaBackend kPlain{"plain", PlainRefuses, SdpaPlain, SdpaGradPlain, RowsOnly};

constexpr const SdpaBackend* kBackends[] = {&kCudnnSdpa, &kFlash, &kPlain};

// The backend that kernels.attention names, else that of WEFT_SDPA, which tests set; null: neither is set.
const SdpaBackend* Preferred(const KernelCall& call) {
  const char* of_tests = std::getenv("WEFT_SDPA");
  std::string name = call.context->numerics().attention;
  if (name.empty() && of_tests) name = of_tests;
  if (name.empty()) return nullptr;
  for (const SdpaBackend* backend : kBackends)
    if (backend->name == name) return backend;
  Fail(fmt::format("attention on CUDA: there is no backend \"{}\"; expected cudnn, flash or plain", name));
}

struct Choice {
  const SdpaBackend* backend = nullptr;  // null: none takes the call
  std::string refusals;                  // of those asked before it: "cudnn: f32 is neither bf16 nor f16"
};

Choice Choose(const KernelCall& call, size_t scratch) {
  Choice choice;
  auto takes = [&](const SdpaBackend* backend) {
    std::string reason = backend->refuses(call);
    if (reason.empty() && backend->workspace(call) > scratch) reason = "it needs more workspace than was planned";
    if (reason.empty())
      choice.backend = backend;
    else
      choice.refusals += fmt::format("{}{}: {}", choice.refusals.empty() ? "" : "; ", backend->name, reason);
    return reason.empty();
  };
  const SdpaBackend* preferred = Preferred(call);
  if (preferred && takes(preferred)) return choice;
  for (const SdpaBackend* backend : kBackends)
    if (backend != preferred && takes(backend)) break;
  return choice;
}

// Run may have to fall back, since it is the first to see whether data is aligned: to a backend that needs rows only.
size_t Workspace(const KernelCall& call) {
  return std::max(ChooseSdpa(call, SIZE_MAX).workspace(call), RowsOnly(call));
}
void Run(const KernelCall& call) { ChooseSdpa(call, call.workspace_bytes).Run(call); }

}  // namespace

bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

std::span<const SdpaBackend* const> SdpaBackends() { return kBackends; }

std::string ExplainSdpa(const KernelCall& call) {
  Choice choice = Choose(call, SIZE_MAX);
  std::string name = choice.backend ? choice.backend->name : "no backend";
  return choice.refusals.empty() ? name : fmt::format("{} ({})", name, choice.refusals);
}

const SdpaBackend& ChooseSdpa(const KernelCall& call, size_t scratch) {
  Choice choice = Choose(call, scratch);
  if (choice.backend) return *choice.backend;
  Fail(fmt::format("{} on CUDA: no backend takes {} with head size {} ({})", IsSdpaGrad(call) ? "sdpa_grad" : "sdpa",
                   Name(call.in[0].dtype), call.in[0].dim(3).extent, choice.refusals));
}

void AddSdpa(KernelTable& table) {
  KernelRow row{.run = &Run, .workspace = &Workspace, .explain = &ExplainSdpa};
  table.Add(Op::kSdpa, row);
  table.Add(Op::kSdpaGrad, row);
}

}  // namespace weft::cuda
