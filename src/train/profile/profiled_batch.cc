#include "weft/train/profile/profiled_batch.h"

#include "fmt/format.h"

namespace weft {
namespace {

std::string ScopeOf(const Node& node) { return node.scope ? *node.scope : ""; }

}  // namespace

std::string ProfiledBatch::scope() const {
  if (is_copies()) return "";
  std::string first_scope = ScopeOf(node());
  for (const Step& step : steps)
    if (ScopeOf(*step.node) != first_scope) return "";
  return first_scope;
}

std::vector<ProfiledBatch> BatchesOf(const RunProfile::ProgramRun& run) {
  std::vector<ProfiledBatch> all;
  const Plan& plan = run.executable->plan();
  for (size_t i = 0; i < run.batches.size(); i++) {
    const Executable::Batch& from = run.executable->batches()[i];
    ProfiledBatch& batch = all.emplace_back();
    batch.span = run.batches[i];
    batch.first = from.first;
    batch.steps = std::span(plan.steps).subspan(from.first, from.count);
    batch.calls = run.executable->calls().subspan(from.first, from.count);
    for (size_t k = 0; k < from.count; k++) batch.cost += CostOf(*batch.steps[k].node, batch.calls[k]);
  }
  if (!run.copies) return all;
  ProfiledBatch& copies = all.emplace_back();
  copies.span = *run.copies;
  copies.first = plan.steps.size();
  for (const Copy& copy : plan.copies) copies.cost.bytes += 2 * int64_t(copy.bytes);
  return all;
}

std::string RateMembers(const CallCost& cost, int64_t nanoseconds) {
  auto rate = [&](double amount) { return nanoseconds > 0 ? amount / double(nanoseconds) : 0; };
  std::string members = fmt::format(R"("bytes":{},"GB/s":{:.3f})", cost.bytes, rate(double(cost.bytes)));
  if (cost.flops > 0) members += fmt::format(R"(,"flops":{:.0f},"GFLOP/s":{:.3f})", cost.flops, rate(cost.flops));
  return members;
}

}  // namespace weft
