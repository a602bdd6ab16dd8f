#include "kernels/cuda/sdpa_choice.h"

#include <fmt/format.h>

#include <cstdlib>

#include "kernels/cuda/device.h"
#include "kernels/cuda/families.h"

namespace weft::cuda {
namespace {

size_t RowsOnly(const KernelCall& call) { return IsSdpaGrad(call) ? SdpaRowsBytes(call) : 0; }

bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Whether rows can be read and written 16 bytes at a time. Views that are only planned with carry no data yet.
bool AlignedRows(const TensorView& view) {
  for (int i = 0; i < 3; i++)
    if (view.dim(i).stride % 8) return false;
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
}

std::string FlashRefuses(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent;
  if (!IsHalf(dtype)) return fmt::format("{} is neither bf16 nor f16", Name(dtype));
  if (size % 8) return fmt::format("head size {} is not a multiple of 8", size);
  if (size > 256) return fmt::format("head size {} is above 256", size);
  if (double scale = SdpaSizes(call).scale; scale < 0) return fmt::format("scale {} is negative", scale);
  for (std::span<const TensorView> views : {call.in, call.out})
    for (const TensorView& view : views)
      if (view.rank == 4 && !AlignedRows(view)) return "an operand's rows are not aligned to 16 bytes";
  if (!call.context->Has(DeviceKind::kCuda)) return {};
  size_t needs = IsSdpaGrad(call) ? SdpaGradFlashSharedBytes(size) : SdpaFlashSharedBytes(size);
  size_t has = DeviceOf(call).shared_bytes();
  if (needs > has) return fmt::format("a block needs {} bytes of shared memory and this GPU has {}", needs, has);
  return {};
}
constexpr SdpaBackend kFlash{"flash", FlashRefuses, SdpaFlash, SdpaGradFlash, RowsOnly};

std::string PlainRefuses(const KernelCall& call) {
  constexpr int64_t kLargest = 1024;  // four rows of f64 fit the shared memory of every block
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent;
  if (!IsFloating(dtype)) return fmt::format("{} is no floating type; cast q, k and v", Name(dtype));
  if (size > kLargest) return fmt::format("head size {} is above {}; use more and smaller heads", size, kLargest);
  return {};
}
constexpr SdpaBackend kPlain{"plain", PlainRefuses, SdpaPlain, SdpaGradPlain, RowsOnly};

constexpr const SdpaBackend* kBackends[] = {&kFlash, &kPlain};

// Enough for whichever backend runs the call: Run may see for the first time that data is not aligned.
size_t Workspace(const KernelCall& call) {
  size_t bytes = 0;
  for (const SdpaBackend* backend : kBackends)
    if (backend->refuses(call).empty()) bytes = std::max(bytes, backend->workspace(call));
  return bytes;
}
void Run(const KernelCall& call) { ChooseSdpa(call).Run(call); }

}  // namespace

std::span<const SdpaBackend* const> SdpaBackends() { return kBackends; }

std::string ExplainSdpa(const KernelCall& call) {
  std::string text;
  for (const SdpaBackend* backend : kBackends) {
    std::string reason = backend->refuses(call);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", backend->name, reason.empty() ? "runs it" : reason);
  }
  return text;
}

const SdpaBackend& ChooseSdpa(const KernelCall& call) {
  const char* preferred = std::getenv("WEFT_SDPA");
  if (preferred)
    for (const SdpaBackend* backend : kBackends)
      if (backend->name == std::string_view(preferred) && backend->refuses(call).empty()) return *backend;
  for (const SdpaBackend* backend : kBackends)
    if (backend->refuses(call).empty()) return *backend;
  Fail(fmt::format("{} on CUDA: no backend takes {} with head size {} ({})", IsSdpaGrad(call) ? "sdpa_grad" : "sdpa",
                   Name(call.in[0].dtype), call.in[0].dim(3).extent, ExplainSdpa(call)));
}

void AddSdpa(KernelTable& table) {
  table.Add(Op::kSdpa, {.run = &Run, .workspace = &Workspace});
  table.Add(Op::kSdpaGrad, {.run = &Run, .workspace = &Workspace});
}

}  // namespace weft::cuda
