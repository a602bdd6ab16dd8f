#include "weft/core/compile/overlap.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace weft {
namespace {

using Range = std::pair<const char*, const char*>;

Range RangeOfStorage(const TensorView& v) {
  auto* data = static_cast<const char*>(v.data);
  if (!data) return {};  // a shape operand
  return {data, data + size_t(v.CapacityElements()) * SizeOf(v.dtype)};
}

bool Meet(const Range& x, const Range& y) { return x.first < y.second && y.first < x.second; }

absl::InlinedVector<Range, 4> Written(const KernelCall& call) {
  absl::InlinedVector<Range, 4> ranges;
  for (const TensorView& v : call.out) ranges.push_back(RangeOfStorage(v));
  auto* scratch = static_cast<const char*>(call.workspace);
  if (scratch) ranges.push_back({scratch, scratch + call.workspace_bytes});
  return ranges;
}

// Does the writer write what the other reads or writes?
bool Hits(const KernelCall& writer, const KernelCall& other) {
  const absl::InlinedVector<Range, 4> others = Written(other);
  for (const Range& w : Written(writer)) {
    for (const TensorView& v : other.in)
      if (Meet(w, RangeOfStorage(v))) return true;
    for (const Range& o : others)
      if (Meet(w, o)) return true;
  }
  return false;
}

}  // namespace

bool Touch(const KernelCall& a, const KernelCall& b) { return Hits(a, b) || Hits(b, a); }

OverlapPlan PlanOverlap(const std::vector<bool>& collective, absl::FunctionRef<bool(size_t, size_t)> touch) {
  OverlapPlan plan;
  plan.entries.resize(collective.size());
  std::vector<size_t> open;  // collectives that the main stream has not waited for
  for (size_t i = 0; i < collective.size(); i++) {
    OverlapPlan::Entry& entry = plan.entries[i];
    if ((entry.beside = collective[i])) {
      open.push_back(i);
      continue;
    }
    // The latest of those that it has to wait for: the stream of collectives is in order, so the others are done then.
    auto latest = std::find_if(open.rbegin(), open.rend(), [&](size_t c) { return touch(c, i); });
    if (latest == open.rend()) continue;
    entry.waits_for = *latest;
    open.erase(open.begin(), latest.base());
  }
  if (!open.empty()) plan.last = open.back();
  return plan;
}

Overlap::Overlap(StreamedDevice& device, OverlapPlan plan)
    : device_(device), plan_(std::move(plan)), beside_(device.NewStream()), main_(device.NewEvent()) {
  moved_.resize(plan_.entries.size());
  auto watch = [&](size_t i) {
    if (i != OverlapPlan::kNobody && !moved_[i]) moved_[i] = device_.NewEvent();
  };
  for (const OverlapPlan::Entry& entry : plan_.entries) watch(entry.waits_for);
  watch(plan_.last);
}

void Overlap::IssueBeside(size_t i, absl::FunctionRef<void(size_t)> issue) {
  StreamScope scope(device_, beside_.get());
  issue(i);
  if (moved_[i]) moved_[i]->Record();
}

void Overlap::Issue(absl::FunctionRef<void(size_t)> issue) {
  bool moved_on = true;  // the main stream, since the last collective
  for (size_t i = 0; i < plan_.entries.size(); i++) {
    const OverlapPlan::Entry& entry = plan_.entries[i];
    if (entry.waits_for != OverlapPlan::kNobody) device_.Wait(*moved_[entry.waits_for]);
    if (!entry.beside) {
      issue(i);
      moved_on = true;
      continue;
    }
    if (std::exchange(moved_on, false)) {
      main_->Record();
      StreamScope scope(device_, beside_.get());
      device_.Wait(*main_);
    }
    IssueBeside(i, issue);
  }
  if (plan_.last != OverlapPlan::kNobody) device_.Wait(*moved_[plan_.last]);
}

}  // namespace weft
