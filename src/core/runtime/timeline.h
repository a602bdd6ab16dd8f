// Timeline: points in the order of the work on a device, and the times at which the device reached them.
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
#include <span>
#include <vector>

#include "weft/core/base/device_runtime.h"

namespace weft {

class Timeline {
 public:
  virtual ~Timeline() = default;
  // Adds a point after the work issued so far. Throws Error if the timeline is full.
  virtual void Mark() = 0;
  // Adds points that the host reached at these times, for work of several threads of the host. Throws Error if the
  // timeline is full, or if its device records the times itself.
  virtual void Add(std::span<const int64_t> times);
  // Returns the times of all points so far, in the order of Mark, in SteadyNanoseconds. Waits for the device.
  virtual std::vector<int64_t> Read() = 0;
};

// A device that records the times of points itself, so that the host need not wait at each point.
class KeepsTime {
 public:
  virtual std::unique_ptr<Timeline> NewTimeline(size_t most) = 0;

 protected:
  ~KeepsTime() = default;
};

// Returns a timeline of at most `most` points. Mark allocates nothing. If the device is no KeepsTime, the host waits
// for it at each point. The device must outlive the timeline.
std::unique_ptr<Timeline> NewTimeline(DeviceRuntime& device, size_t most);

// Returns nanoseconds of std::chrono::steady_clock. All processes of a host share this clock.
int64_t SteadyNanoseconds();

}  // namespace weft
