#include "weft/core/compile/overlap/stream_overlap.h"

#include <utility>

namespace weft {

StreamOverlap::StreamOverlap(StreamedDevice& device, OverlapPlan plan)
    : device_(device), plan_(std::move(plan)), lanes_(size_t(plan_.lanes)), main_(device.NewEvent()) {
  for (Lane& lane : lanes_) lane.stream = device.NewStream();
  moved_.resize(plan_.entries.size());
  auto watch = [&](std::span<const size_t> collectives) {
    for (size_t i : collectives)
      if (!moved_[i]) moved_[i] = device_.NewEvent();
  };
  for (const OverlapPlan::Entry& entry : plan_.entries) watch(entry.waits_for);
  watch(plan_.last);
}

// Makes the current stream wait.
void StreamOverlap::WaitFor(std::span<const size_t> collectives) {
  for (size_t i : collectives) device_.Wait(*moved_[i]);
}

void StreamOverlap::IssueBeside(size_t i, absl::FunctionRef<void(size_t)> issue) {
  const OverlapPlan::Entry& entry = plan_.entries[i];
  Lane& lane = lanes_[size_t(entry.lane)];
  bool behind = std::exchange(lane.behind, false);
  if (behind) main_->Record();
  StreamScope scope(device_, lane.stream.get());
  if (behind) device_.Wait(*main_);
  WaitFor(entry.waits_for);
  issue(i);
  if (moved_[i]) moved_[i]->Record();
}

void StreamOverlap::Issue(absl::FunctionRef<void(size_t)> issue) {
  for (Lane& lane : lanes_) lane.behind = true;
  for (size_t i = 0; i < plan_.entries.size(); i++) {
    const OverlapPlan::Entry& entry = plan_.entries[i];
    if (entry.lane != OverlapPlan::kMain) {
      IssueBeside(i, issue);
      continue;
    }
    WaitFor(entry.waits_for);
    issue(i);
    for (Lane& lane : lanes_) lane.behind = true;
  }
  WaitFor(plan_.last);
}

}  // namespace weft
