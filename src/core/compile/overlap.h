// Overlap: the calls of a program on two streams of its device, collectives on one of their own beside all else.
//
// Calls are issued in the order of the program. A collective begins when what the main stream was given before it is
// done. A call on the main stream waits for a collective where the two share bytes that one of them writes: where it
// reads what came, or takes memory that the collective still reads. So a plan that is right call by call is right here.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/runtime/kernel.h"
#include "weft/core/runtime/streams.h"

namespace weft {

// Whether the calls share bytes that one of them writes.
bool Touch(const KernelCall& a, const KernelCall& b);

// Who goes beside the main stream, and who waits for them.
struct OverlapPlan {
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();
  struct Entry {
    bool beside = false;         // on the stream of collectives
    size_t waits_for = kNobody;  // of the main stream: the last collective that must be done, and so all before it
  };
  std::vector<Entry> entries;
  size_t last = kNobody;  // the last collective that nobody waits for before the end
};
// `collective[i]` says whether entry i moves bytes between ranks; touch(i, j), whether the two must keep their order.
OverlapPlan PlanOverlap(const std::vector<bool>& collective, absl::FunctionRef<bool(size_t, size_t)> touch);

class Overlap {
 public:
  // One entry of the plan for each thing that Issue is asked for.
  Overlap(StreamedDevice& device, OverlapPlan plan);
  // Calls issue(i) for every entry, in order, with the stream that it belongs to as the current one. Afterwards the
  // main stream is behind all of them.
  void Issue(absl::FunctionRef<void(size_t)> issue);

 private:
  void IssueBeside(size_t i, absl::FunctionRef<void(size_t)> issue);

  StreamedDevice& device_;
  OverlapPlan plan_;
  std::unique_ptr<StreamedDevice::Stream> beside_;
  std::unique_ptr<DeviceRuntime::Event> main_;  // where the main stream stands when a collective is issued
  std::vector<std::unique_ptr<DeviceRuntime::Event>> moved_;  // by entry: of the collectives that somebody waits for
};

}  // namespace weft
