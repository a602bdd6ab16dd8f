// Overlap: issues the calls of a program to several streams of its device. Collectives go to lanes, one for each axis
// of the mesh, so that they run at the same time as kernels and do not wait for the collectives of another axis.
//
// Calls are issued in the order of the program. A collective starts when all work issued to the main stream before it
// is done. Any call waits for a collective of another stream if the two share bytes that one of them writes. Such a
// call reads the result, or reuses memory that the collective still reads. So a plan that is correct call by call is
// correct here.
//
// Lanes have no order among each other. The kernel of a collective waits for other ranks, so the kernels of all lanes
// must fit on the device at once. NcclGroupFactory limits NCCL's groups accordingly. Kernels of the main stream finish
// without waiting for any other kernel.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "weft/core/runtime/kernel.h"
#include "weft/core/runtime/streams.h"

namespace weft {

// Whether the calls share bytes that at least one of them writes.
bool Touch(const KernelCall& a, const KernelCall& b);

// The lane of each entry, and the collectives that the entry waits for.
struct OverlapPlan {
  static constexpr int kMain = -1;  // the main stream
  struct Entry {
    int lane = kMain;
    // The last collective to wait for in each other lane. The earlier ones of that lane are then done too.
    absl::InlinedVector<size_t, 2> waits_for;
  };
  std::vector<Entry> entries;
  std::vector<size_t> last;  // per lane its last collective, if the main stream has not waited for it before the end
  int lanes = 0;
};
// Returns the plan. `lanes[i]` is the lane of entry i, from 0, or kMain. touch(i, j) says whether the two must keep
// their order.
OverlapPlan PlanOverlap(std::span<const int> lanes, absl::FunctionRef<bool(size_t, size_t)> touch);

class Overlap {
 public:
  // The plan has one entry per index that Issue passes on.
  Overlap(StreamedDevice& device, OverlapPlan plan);
  // Calls issue(i) for every entry in order, with the entry's stream as the current one. Work issued to the main stream
  // afterwards runs after all of them.
  void Issue(absl::FunctionRef<void(size_t)> issue);

 private:
  struct Lane {
    std::unique_ptr<StreamedDevice::Stream> stream;
    bool behind = true;  // the main stream got work since the lane last waited for it
  };
  void IssueBeside(size_t i, absl::FunctionRef<void(size_t)> issue);
  void WaitFor(std::span<const size_t> collectives);

  StreamedDevice& device_;
  OverlapPlan plan_;
  std::vector<Lane> lanes_;
  std::unique_ptr<DeviceRuntime::Event> main_;                // the current end of the main stream
  std::vector<std::unique_ptr<DeviceRuntime::Event>> moved_;  // per entry, if some call waits for it
};

}  // namespace weft
