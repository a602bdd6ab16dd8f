#include "weft/kernels/cuda/device/timeline.h"

#include <cmath>

#include "weft/core/base/error.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {

CudaTimeline::TimedEvent::TimedEvent() { WEFT_CUDA(cudaEventCreate(&event)); }

CudaTimeline::CudaTimeline(const CudaDevice& device, size_t most) : device_(device), events_(most) {}

void CudaTimeline::Mark() {
  WEFT_CHECK(marked_ < events_.size(), "a timeline got more points than it was made for");
  WEFT_CUDA(cudaEventRecord(events_[marked_++].event, device_.stream()));
}

// The GPU knows the time between two events, and the host knows when the last one was done. The times between
// neighbours are added up, because CUDA returns them as floats, which over seconds would lose the microseconds.
std::vector<int64_t> CudaTimeline::Read() {
  TimedEvent now;
  WEFT_CUDA(cudaStreamSynchronize(device_.stream()));
  WEFT_CUDA(cudaEventRecord(now.event, device_.stream()));
  WEFT_CUDA(cudaEventSynchronize(now.event));
  int64_t at = SteadyNanoseconds();
  std::vector<int64_t> times(marked_);
  cudaEvent_t later = now.event;
  for (size_t i = marked_; i-- > 0;) {
    float ms = 0;
    WEFT_CUDA(cudaEventElapsedTime(&ms, events_[i].event, later));
    at -= int64_t(std::llround(double(ms) * 1e6));
    times[i] = at;
    later = events_[i].event;
  }
  return times;
}

}  // namespace weft::cuda
