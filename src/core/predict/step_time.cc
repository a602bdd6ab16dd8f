#include "weft/core/predict/step_time.h"

#include <algorithm>

namespace weft {
namespace {

double& PartOf(WorkClass kind, StepTime& time) {
  switch (kind) {
    case WorkClass::kProduct:
      return time.products;
    case WorkClass::kAttention:
      return time.attention;
    case WorkClass::kMemory:
      return time.memory;
    case WorkClass::kCollective:
      return time.collectives;
  }
  Fail("a class of work without a time");
}

bool SamePlace(const Wait& a, const Wait& b) { return a.kernel == b.kernel && a.collective == b.collective; }
bool SamePlace(const KernelTime& a, const KernelTime& b) { return a.kernel == b.kernel; }

template <class Time>
void Add(const Time& more, std::vector<Time>& times) {
  auto it = std::ranges::find_if(times, [&](const Time& one) { return SamePlace(one, more); });
  if (it == times.end()) return times.push_back(more);
  it->ms += more.ms;
  it->times += more.times;
}

}  // namespace

StepTime& StepTime::operator+=(const StepTime& other) {
  total += other.total;
  products += other.products;
  attention += other.attention;
  memory += other.memory;
  collectives += other.collectives;
  exposed += other.exposed;
  lost += other.lost;
  for (const Wait& wait : other.waits) Add(wait, waits);
  for (const KernelTime& kernel : other.kernels) Add(kernel, kernels);
  return *this;
}

StepTime StepTime::operator*(int64_t times) const {
  StepTime all;
  for (int64_t i = 0; i < times; i++) all += *this;
  return all;
}

PlanWork WorkOf(const Plan& plan, const Runtime& runtime, const std::string& memory) {
  PretendedAddresses addresses(plan);
  PlannedCalls calls(plan, runtime, [&](const Place& place) { return addresses.At(place); });
  PlanWork work;
  for (const PlannedCalls::Batch& batch : calls.batches())
    work.batches.push_back(WorkOf(plan, calls, batch, runtime.mesh_shape, memory));
  for (const Copy& copy : plan.copies) work.copies.push_back(WorkOf(copy));
  if (runtime.Overlaps() && calls.has_collectives())
    work.overlap = calls.Overlap();
  else
    work.overlap.entries.resize(work.batches.size());
  return work;
}

StepTime Simulate(const OverlapPlan& overlap, std::span<const BatchWork> batches, std::span<const double> ms) {
  StepTime time;
  std::vector<EntryTime> when = TimesOf(overlap, ms);
  double now = 0;  // when the main stream has done its latest entry
  for (size_t i = 0; i < batches.size(); i++) {
    PartOf(batches[i].kind, time) += ms[i];
    if (batches[i].kind != WorkClass::kCollective) Add(KernelTime{batches[i].place, ms[i], 1}, time.kernels);
    if (overlap.entries[i].lane != OverlapPlan::kMain) continue;
    bool moves = batches[i].kind == WorkClass::kCollective;
    if (when[i].begin - now > 1e-3) {
      auto ends = [&](size_t other) { return when[other].end; };
      size_t last = *std::ranges::max_element(overlap.entries[i].waits_for, {}, ends);
      Add(Wait{batches[i].place, batches[last].place, when[i].begin - now, 1}, time.waits);
    }
    time.exposed += when[i].begin - now + (moves ? ms[i] : 0);
    now = when[i].end;
  }
  time.total = now;
  for (size_t i : overlap.last) time.total = std::max(time.total, when[i].end);
  time.exposed += time.total - now;
  return time;
}

absl::StatusOr<StepTime> TimeOf(const PlanWork& plan, const Rates& rates) {
  std::vector<double> ms;
  for (const BatchWork& work : plan.batches) {
    absl::StatusOr<double> one = rates.MillisecondsOf(work);
    if (!one.ok()) return one.status();
    ms.push_back(*one);
  }
  StepTime time = Simulate(plan.overlap, plan.batches, ms);
  time.lost = rates.lost_share() * std::max(0.0, time.collectives - time.exposed);
  time.total += time.lost;
  for (const BatchWork& copy : plan.copies) {
    absl::StatusOr<double> one = rates.MillisecondsOf(copy);
    if (!one.ok()) return one.status();
    time.memory += *one;
    Add(KernelTime{copy.place, *one, 1}, time.kernels);
    time.total += *one;
  }
  return time;
}

}  // namespace weft
