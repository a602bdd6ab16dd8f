// Timeline: points in the order of the work on a device, and the times at which the device came to them.
//
//   std::unique_ptr<Timeline> timeline = NewTimeline(device, 2);
//   timeline->Mark();
//   row.run(call);
//   timeline->Mark();
//   std::vector<int64_t> times = timeline->Read();  // times[1] - times[0]: nanoseconds of the call
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/core/base/device_runtime.h"

namespace weft {

class Timeline {
 public:
  virtual ~Timeline() = default;
  // Puts the next point behind the work that was issued so far. Throws Error when the timeline is full.
  virtual void Mark() = 0;
  // The times of all points so far, in the order of Mark: SteadyNanoseconds. Waits for the device.
  virtual std::vector<int64_t> Read() = 0;
};

// A device that notes by itself when its work comes to a point: the host need not wait there.
class KeepsTime {
 public:
  virtual std::unique_ptr<Timeline> NewTimeline(size_t most) = 0;

 protected:
  ~KeepsTime() = default;
};

// A timeline of at most `most` points; Mark allocates nothing. The host waits at each point for a device that does not
// keep time. The device outlives the timeline.
std::unique_ptr<Timeline> NewTimeline(DeviceRuntime& device, size_t most);

// Nanoseconds of std::chrono::steady_clock: the same clock for all processes of a host.
int64_t SteadyNanoseconds();

}  // namespace weft
