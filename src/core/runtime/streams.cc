#include "weft/core/runtime/streams.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "weft/core/base/error.h"

namespace weft {

void StreamedDevice::BeforeReplay(std::function<void()> fn) {
  WEFT_CHECK(recording_, "only what is recorded is replayed");
  before_replay_.push_back(std::move(fn));
}

StreamedDevice::Calls StreamedDevice::RecordCalls(absl::FunctionRef<void()> fn) {
  WEFT_CHECK(!recording_, "a recording was begun within another one");
  recording_ = ++recordings_;
  absl::Cleanup recorded = [this] {
    recording_ = 0;
    before_replay_.clear();
  };
  fn();
  return std::exchange(before_replay_, {});
}

// The device's own allocations may be highest while libraries hold little, so the sum of both maxima is too much.
void StreamedDevice::CountOutside(int64_t bytes) {
  most_before_ = PeakBytes();
  ForgetMostInside();
  outside_ += bytes;
}

size_t StreamedDevice::PeakBytes() const { return std::max(most_before_, MostInside() + outside()); }

void StreamedDevice::SetFailure(std::exception_ptr error) {
  std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::move(error);
}

std::exception_ptr StreamedDevice::failure() const {
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

void StreamedDevice::ThrowFailure() const {
  if (std::exception_ptr error = failure()) std::rethrow_exception(error);
}

void StreamRecording::Replay() {
  device_.ThrowFailure();
  for (const auto& call : before_) call();
  try {
    Issue();
  } catch (...) {
    device_.SetFailure(std::current_exception());  // calls issued before it count on this work
    throw;
  }
}

}  // namespace weft
