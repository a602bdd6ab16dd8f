// StreamOverlap: the lanes of a device with streams. The main stream and the lanes wait for each other by events.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "weft/core/compile/overlap/overlap.h"
#include "weft/core/runtime/streams.h"

namespace weft {

class StreamOverlap final : public Overlap {
 public:
  StreamOverlap(StreamedDevice& device, OverlapPlan plan);
  void Issue(absl::FunctionRef<void(size_t)> issue) override;

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
