#include "weft/kernels/cuda/plan/sdpa_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "weft/kernels/cuda/plan/cudnn_sizes.h"
#include "weft/kernels/cuda/plan/sdpa_split.h"

namespace weft::cuda {
namespace {

constexpr SdpaBackend kPlanned[] = {
    {.name = "cudnn", .refuses = CudnnRefusesShape, .workspace = CudnnExpectedWorkspace},
    {.name = "flash", .refuses = FlashRefusesShape, .workspace = FlashWorkspace},
    {.name = "plain", .refuses = PlainRefuses, .workspace = SdpaRowsWorkspace}};

// Returns the backend that kernels.attention names, or else the one of WEFT_SDPA, which tests set. Returns null if
// neither is set. Throws Error if there is no such backend.
const SdpaBackend* Preferred(SdpaBackends backends, const KernelCall& call) {
  const char* of_tests = std::getenv("WEFT_SDPA");
  std::string name = call.context->numerics().attention;
  if (name.empty() && of_tests) name = of_tests;
  if (name.empty()) return nullptr;
  for (const SdpaBackend& backend : backends)
    if (backend.name == name) return &backend;
  Fail(fmt::format("attention on CUDA: there is no backend \"{}\"; expected cudnn, flash or plain", name));
}

struct Choice {
  const SdpaBackend* backend = nullptr;  // null if none takes the call
  std::string refusals;  // of the backends asked before it, for example "cudnn: f32 is neither bf16 nor f16"
};

Choice Choose(SdpaBackends backends, const KernelCall& call, size_t scratch) {
  Choice choice;
  auto takes = [&](const SdpaBackend& backend) {
    std::string reason = backend.refuses(call);
    if (reason.empty() && backend.workspace(call) > scratch) reason = "it needs more workspace than was planned";
    if (reason.empty())
      choice.backend = &backend;
    else
      choice.refusals += fmt::format("{}{}: {}", choice.refusals.empty() ? "" : "; ", backend.name, reason);
    return reason.empty();
  };
  const SdpaBackend* preferred = Preferred(backends, call);
  if (preferred && takes(*preferred)) return choice;
  for (const SdpaBackend& backend : backends)
    if (&backend != preferred && takes(backend)) break;
  return choice;
}

}  // namespace

SdpaBackends PlannedSdpa() { return kPlanned; }

std::string ExplainSdpa(SdpaBackends backends, const KernelCall& call) {
  Choice choice = Choose(backends, call, SIZE_MAX);
  std::string name = choice.backend ? choice.backend->name : "no backend";
  return choice.refusals.empty() ? name : fmt::format("{} ({})", name, choice.refusals);
}

const SdpaBackend& ChooseSdpa(SdpaBackends backends, const KernelCall& call, size_t scratch) {
  Choice choice = Choose(backends, call, scratch);
  if (choice.backend) return *choice.backend;
  Fail(fmt::format("{} on CUDA: no backend takes {} with head size {} ({})", IsSdpaGrad(call) ? "sdpa_grad" : "sdpa",
                   Name(call.in[0].dtype), call.in[0].dim(3).extent, choice.refusals));
}

// A run is the first to see whether data is aligned, so it may have to fall back to a backend that needs only the rows.
size_t SdpaWorkspace(SdpaBackends backends, const KernelCall& call) {
  return std::max(ChooseSdpa(backends, call, SIZE_MAX).workspace(call), SdpaRowsWorkspace(call));
}

bool HasOptions(const KernelCall& call) {
  static constexpr AttrName<int64_t> kFlags[] = {"mask", "bias", "sinks", "offsets", "lengths", "segments"};
  const Attrs& attrs = *call.attrs;
  return std::ranges::any_of(kFlags, [&](AttrName<int64_t> flag) { return attrs.IntOr(flag, 0) != 0; }) ||
         attrs.IntOr("left", -1) >= 0 || attrs.IntOr("right", -1) >= 0 || attrs.Has("softcap") || attrs.Has("p");
}

size_t SdpaRowsWorkspace(const KernelCall& call) { return IsSdpaGrad(call) ? SdpaRowsBytes(call) : 0; }
bool FlashSumsQueries(const KernelCall& call) {
  return IsSdpaGrad(call) && IsHalf(call.in[0].dtype) && !IsDeterministic(call);
}
size_t QuerySumBytes(const KernelCall& call) {
  if (!FlashSumsQueries(call)) return 0;
  SdpaSizes z(call);
  return size_t(z.B) * size_t(z.H) * size_t(z.PaddedT()) * size_t(z.D) * sizeof(float);
}
size_t FlashWorkspace(const KernelCall& call) {
  size_t of_tiles = SdpaRowsWorkspace(call) + QuerySumBytes(call) + SegmentRangeBytes(call);
  return std::max(of_tiles, SdpaSplit(call).bytes);
}

std::string FlashRefusesShape(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent, values = call.in[2].dim(3).extent;
  if (values != size) return fmt::format("values of size {} differ from keys of size {}", values, size);
  if (!IsHalf(dtype) && dtype != DType::kF32) return fmt::format("{} is none of bf16, f16 and f32", Name(dtype));
  if (IsHalf(dtype) && size % 8) return fmt::format("head size {} is not a multiple of 8", size);
  if (size > 256) return fmt::format("head size {} is above 256", size);
  if (double scale = SdpaSizes(call).scale; scale < 0) return fmt::format("scale {} is negative", scale);
  if (IsHalf(dtype) && !HasAlignedRows(call)) return "an operand's rows are not aligned to 16 bytes";
  return {};
}

std::string PlainRefuses(const KernelCall& call) {
  constexpr int64_t kLargest = 1024;  // four rows of f64 fit the shared memory of every block
  DType dtype = call.in[0].dtype;
  int64_t size = std::max(call.in[0].dim(3).extent, call.in[2].dim(3).extent);  // of keys or values
  if (!IsFloating(dtype)) return fmt::format("{} is no floating type; cast q, k and v", Name(dtype));
  if (size > kLargest) return fmt::format("head size {} is above {}; use more and smaller heads", size, kLargest);
  return {};
}

}  // namespace weft::cuda
