#include "weft/core/runtime/timeline.h"

#include <chrono>

#include "weft/core/base/error.h"

namespace weft {
namespace {

// Reads the host's clock after waiting for the work.
class HostTimeline final : public Timeline {
 public:
  HostTimeline(DeviceRuntime& device, size_t most) : device_(device), most_(most) { times_.reserve(most); }
  void Mark() override {
    device_.Synchronize();
    int64_t now = SteadyNanoseconds();
    Add({&now, 1});
  }
  void Add(std::span<const int64_t> times) override {
    WEFT_CHECK(times_.size() + times.size() <= most_, "a timeline got more points than it was made for");
    times_.insert(times_.end(), times.begin(), times.end());
  }
  std::vector<int64_t> Read() override { return times_; }

 private:
  DeviceRuntime& device_;
  size_t most_;
  std::vector<int64_t> times_;
};

}  // namespace

void Timeline::Add(std::span<const int64_t>) { Fail("times of the host were added to the timeline of a device"); }

std::unique_ptr<Timeline> NewTimeline(DeviceRuntime& device, size_t most) {
  if (auto* keeper = dynamic_cast<KeepsTime*>(&device)) return keeper->NewTimeline(most);
  return std::make_unique<HostTimeline>(device, most);
}

int64_t SteadyNanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace weft
