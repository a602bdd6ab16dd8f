#include "weft/core/compile/overlap/overlap.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace weft {
namespace {

// The bytes from `first` to `last`. If they hold a slice, it has `row` bytes of every `period` bytes.
struct Range {
  const char *first = nullptr, *last = nullptr;
  int64_t period = 0, row = 0;  // 0: all bytes
};

Range RangeOfStorage(const TensorView& v) {
  auto* data = static_cast<const char*>(v.data);
  if (!data) return {};  // a shape operand
  int64_t element = int64_t(SizeOf(v.dtype)), dense = 1;
  Range range{data, data + std::max(v.SpanElements(), v.CapacityElements()) * element};
  for (int d = v.rank - 1; d >= 0; dense *= v.dim(d--).capacity) {
    if (v.dim(d).stride <= dense || v.dim(d).capacity == 1) continue;
    range.period = v.dim(d).stride * element, range.row = dense * element;
    break;
  }
  return range;
}

bool Meet(const Range& x, const Range& y) {
  if (x.first >= y.last || y.first >= x.last) return false;
  if (x.period == 0 || x.period != y.period) return true;
  // Rows of one tensor: that of y begins so many bytes after one of x.
  int64_t after = ((y.first - x.first) % x.period + x.period) % x.period;
  return after < x.row || after + y.row > x.period;
}

absl::InlinedVector<Range, 4> Written(const KernelCall& call) {
  absl::InlinedVector<Range, 4> ranges;
  for (const TensorView& v : call.out) ranges.push_back(RangeOfStorage(v));
  auto* scratch = static_cast<const char*>(call.workspace);
  if (scratch) ranges.push_back({.first = scratch, .last = scratch + call.workspace_bytes});
  return ranges;
}

// Whether the writer writes bytes that the other call reads or writes.
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

// Walks through the calls. For each stream it knows up to which collective of each lane the stream has waited.
class OverlapPlanner {
 public:
  OverlapPlanner(std::span<const int> lanes, absl::FunctionRef<bool(size_t, size_t)> touch)
      : lanes_(lanes), touch_(touch) {}

  OverlapPlan Run() {
    plan_.entries.resize(lanes_.size());
    for (int lane : lanes_) plan_.lanes = std::max(plan_.lanes, lane + 1);
    issued_.resize(size_t(plan_.lanes));
    main_.resize(size_t(plan_.lanes));
    beside_.resize(size_t(plan_.lanes), main_);
    for (size_t i = 0; i < lanes_.size(); i++) Enter(i);
    for (size_t lane = 0; lane < issued_.size(); lane++)
      if (main_[lane] < issued_[lane].size()) plan_.last.push_back(issued_[lane].back());
    return std::move(plan_);
  }

 private:
  using Done = std::vector<size_t>;  // per lane, how many of its collectives a stream has waited for

  void Enter(size_t i) {
    int lane = plan_.entries[i].lane = lanes_[i];
    if (lane == OverlapPlan::kMain) return WaitIn(main_, i);
    Done& done = beside_[size_t(lane)];  // the lane first waits for the main stream
    for (size_t other = 0; other < done.size(); other++) done[other] = std::max(done[other], main_[other]);
    WaitIn(done, i);
    issued_[size_t(lane)].push_back(i);
  }

  // Finds the latest collective of each other lane that entry i must wait for. A lane runs in order, so the earlier
  // ones are then done too.
  void WaitIn(Done& done, size_t i) {
    OverlapPlan::Entry& entry = plan_.entries[i];
    for (size_t lane = 0; lane < issued_.size(); lane++) {
      if (int(lane) == entry.lane) continue;
      size_t count = issued_[lane].size();
      while (count > done[lane] && !touch_(issued_[lane][count - 1], i)) count--;
      if (count <= done[lane]) continue;
      done[lane] = count;
      entry.waits_for.push_back(issued_[lane][count - 1]);
    }
  }

  std::span<const int> lanes_;
  absl::FunctionRef<bool(size_t, size_t)> touch_;
  OverlapPlan plan_;
  std::vector<std::vector<size_t>> issued_;  // per lane
  Done main_;
  std::vector<Done> beside_;  // per lane
};

}  // namespace

bool Touch(const KernelCall& a, const KernelCall& b) { return Hits(a, b) || Hits(b, a); }

std::vector<EntryTime> TimesOf(const OverlapPlan& plan, std::span<const double> times) {
  double main = 0;  // the end of what the main stream has got so far
  std::vector<double> lanes(size_t(plan.lanes));
  std::vector<EntryTime> all;
  for (const OverlapPlan::Entry& entry : plan.entries) {
    double begin = main;
    for (size_t other : entry.waits_for) begin = std::max(begin, all[other].end);
    double& stream = entry.lane == OverlapPlan::kMain ? main : lanes[size_t(entry.lane)];
    begin = std::max(begin, stream);
    stream = begin + times[all.size()];
    all.push_back({begin, stream});
  }
  return all;
}

OverlapPlan PlanOverlap(std::span<const int> lanes, absl::FunctionRef<bool(size_t, size_t)> touch) {
  return OverlapPlanner(lanes, touch).Run();
}

}  // namespace weft
