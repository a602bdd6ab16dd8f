#include "weft/kernels/common/sdpa_refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace weft {
namespace {

// Returns "bf16 [4, 64, 16, 100]", with the elements that this rank holds.
std::string OperandText(const TensorView& view) {
  std::vector<int64_t> dims;
  for (int i = 0; i < view.rank; i++) dims.push_back(view.dim(i).extent);
  return fmt::format("{} [{}]", Name(view.dtype), fmt::join(dims, ", "));
}

std::string Advice(const SdpaRefusal& refusal) {
  if (refusal.others == 0) return "change the operands as one of the reasons asks";
  return fmt::format("allow {} in SdpaBackends", SdpaBackendNames(refusal.others));
}

}  // namespace

void RefuseSdpa(const KernelCall& call, const char* device, const SdpaRefusal& refusal) {
  int64_t allowed = call.attrs->IntOr("backends", kAllSdpaBackends);
  std::string where = call.loc.line() ? " at " + ToString(call.loc) : "";
  if (!call.scope.empty()) where += fmt::format(" in {}", call.scope);
  Fail(fmt::format("{}{}: on {} no backend of {} takes q {}, k {} and v {} ({}); {}",
                   call.out.size() > 2 ? "sdpa_grad" : "sdpa", where, device, SdpaBackendNames(allowed),
                   OperandText(call.in[0]), OperandText(call.in[1]), OperandText(call.in[2]), refusal.reasons,
                   Advice(refusal)));
}

}  // namespace weft
