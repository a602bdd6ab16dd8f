#include "weft/core/compile/planned_calls.h"

#include <algorithm>
#include <map>

#include "weft/core/ir/collective_row.h"

namespace weft {
namespace {

std::optional<int64_t> AxisOf(const Node& node) {
  return IsCollective(node.op) ? std::optional(node.attrs.Int("axis")) : std::nullopt;
}

// The pretended arena begins at one page, so that no place has address 0.
constexpr uintptr_t kFirstAddress = 4096;

}  // namespace

PlannedCalls::PlannedCalls(const Plan& plan, const Runtime& runtime, absl::FunctionRef<void*(const Place&)> address) {
  operands_.reserve(plan.steps.size());
  for (const Step& step : plan.steps) {
    Operands& views = operands_.emplace_back();
    for (auto [from, to] : {std::pair{&step.in, &views.in}, std::pair{&step.out, &views.out}})
      for (const PlannedView& planned : *from) {
        to->push_back(planned.view);
        to->back().data = address(planned.place);
      }
    KernelCall& call = calls_.emplace_back(CallOf(*step.node, views.in, views.out, runtime));
    if (step.workspace_bytes) call.workspace = address({Place::kArena, step.workspace_offset, ""});
    call.workspace_bytes = step.workspace_bytes;
  }
  MakeBatches(plan, runtime);
}

void PlannedCalls::MakeBatches(const Plan& plan, const Runtime& runtime) {
  std::map<int64_t, int> lane_of_axis;
  for (size_t i = 0; i < calls_.size(); i++) {
    const Node& node = *plan.steps[i].node;
    const KernelRow& row = runtime.kernels().Row(node.op);
    if (Joins(plan, row, i)) {
      batches_.back().count++;
      continue;
    }
    batches_.push_back({&row, i, 1, AxisOf(node)});
    const std::optional<int64_t>& axis = batches_.back().axis;
    lane_of_.push_back(axis ? lane_of_axis.emplace(*axis, int(lane_of_axis.size())).first->second : OverlapPlan::kMain);
  }
  lanes_ = int(lane_of_axis.size());
}

// Whether a step joins the last batch.
bool PlannedCalls::Joins(const Plan& plan, const KernelRow& row, size_t step) const {
  if (batches_.empty()) return false;
  const Batch& last = batches_.back();
  bool joins = last.row == &row && last.axis == AxisOf(*plan.steps[step].node) && MayJoin(row, plan.steps[step]) &&
               MayJoin(row, plan.steps[last.first]);
  for (size_t i = last.first; joins && i < step; i++) joins = !Touch(calls_[i], calls_[step]);
  return joins;
}

OverlapPlan PlannedCalls::Overlap() const {
  return PlanOverlap(lane_of_, [&](size_t i, size_t j) {
    for (const KernelCall& a : CallsOf(batches_[i]))
      for (const KernelCall& b : CallsOf(batches_[j]))
        if (Touch(a, b)) return true;
    return false;
  });
}

PretendedAddresses::PretendedAddresses(const Plan& plan) {
  uintptr_t next = kFirstAddress + plan.arena_bytes;
  auto add = [&](const PlannedView& v) {
    if (v.place.kind != Place::kEntry || !entries_.emplace(v.place.entry, next).second) return;
    next += size_t(v.view.CapacityElements()) * SizeOf(v.view.dtype);
  };
  for (const Step& step : plan.steps) {
    for (const PlannedView& v : step.in) add(v);
    for (const PlannedView& v : step.out) add(v);
  }
}

void* PretendedAddresses::At(const Place& place) const {
  if (place.kind == Place::kNone) return nullptr;
  uintptr_t at = place.kind == Place::kArena ? kFirstAddress + place.offset : entries_.at(place.entry);
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): it is compared, never read
}

}  // namespace weft
