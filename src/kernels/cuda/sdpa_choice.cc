#include "kernels/cuda/sdpa_choice.h"

#include <fmt/format.h>

#include "kernels/cuda/families.h"

namespace weft::cuda {
namespace {

size_t RowsOnly(const KernelCall& call) { return IsSdpaGrad(call) ? SdpaRowsBytes(call) : 0; }

std::string PlainRefuses(const KernelCall& call) {
  constexpr int64_t kLargest = 1024;  // four rows of f64 fit the shared memory of every block
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent;
  if (!IsFloating(dtype)) return fmt::format("{} is no floating type; cast q, k and v", Name(dtype));
  if (size > kLargest) return fmt::format("head size {} is above {}; use more and smaller heads", size, kLargest);
  return {};
}
constexpr SdpaBackend kPlain{"plain", PlainRefuses, SdpaPlain, SdpaGradPlain, RowsOnly};

constexpr const SdpaBackend* kBackends[] = {&kPlain};

// Run may come with less scratch than was asked for here only if it chooses another backend: data that is not aligned
// is seen then for the first time. So every backend in line for the call must find room.
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
