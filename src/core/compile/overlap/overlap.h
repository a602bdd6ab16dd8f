// Overlap: runs the collectives of a program at the same time as its kernels. Collectives go to lanes, one for each
// axis of the mesh, so that they do not wait for the collectives of another axis. On a device with streams a lane is a
// stream (stream_overlap.h), and on the CPU it is a thread (host_overlap.h).
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
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "weft/core/runtime/kernel.h"

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

// When an entry runs.
struct EntryTime {
  double begin, end;
};
// Returns when each entry runs if entry i takes times[i]: those of the main stream one after the other, and those of a
// lane as soon as the lane, what the main stream had got before, and what they wait for are done.
std::vector<EntryTime> TimesOf(const OverlapPlan& plan, std::span<const double> times);

class Overlap {
 public:
  virtual ~Overlap() = default;
  // Calls issue(i) once for every entry of the plan, where the entry belongs: with its stream as the current one, or in
  // its thread. What the caller does afterwards runs after all of them.
  virtual void Issue(absl::FunctionRef<void(size_t)> issue) = 0;
};

}  // namespace weft
