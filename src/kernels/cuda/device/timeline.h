// CudaTimeline: points in a stream as timed events. The GPU records when it passes them, so the host keeps issuing
// work.
#pragma once
#include <cuda_runtime_api.h>

#include <deque>

#include "weft/core/runtime/timeline.h"

namespace weft::cuda {

class CudaDevice;

class CudaTimeline final : public Timeline {
 public:
  CudaTimeline(const CudaDevice& device, size_t most);
  void Mark() override;
  std::vector<int64_t> Read() override;

 private:
  struct TimedEvent {
    TimedEvent();
    ~TimedEvent() { cudaEventDestroy(event); }
    TimedEvent(const TimedEvent&) = delete;
    TimedEvent& operator=(const TimedEvent&) = delete;
    cudaEvent_t event = nullptr;
  };

  const CudaDevice& device_;
  std::deque<TimedEvent> events_;
  size_t marked_ = 0;
};

}  // namespace weft::cuda
