#include "weft/dist/group/stream/stream_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// The pause between two checks of a call. It is short at first, for a thread that waits on the host, then a fraction of
// the time that the call has taken.
microseconds PauseOf(Clock::duration waited) {
  auto part = std::chrono::duration_cast<microseconds>(waited) / 16;
  return std::clamp(part, microseconds(5), microseconds(2000));
}

}  // namespace

StreamWatch::StreamWatch(StreamedDevice& device, std::function<std::string()> fault)
    : device_(device), fault_(std::move(fault)), thread_([this] { Loop(); }) {}

StreamWatch::~StreamWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamWatch::Add(Deadline deadline, Finished finished) {
  Event passed;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      passed = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!passed) passed = device_.NewEvent();
  passed->Record();
  std::lock_guard lock(mutex_);
  calls_.push_back({std::move(passed), Clock::now(), deadline, std::move(finished)});
  changed_.notify_all();
}

void StreamWatch::End(const std::string& error) {
  std::lock_guard lock(mutex_);
  if (ended_.empty()) ended_ = error;
  changed_.notify_all();
}

// Requires the lock.
bool StreamWatch::IsDone(const Call& call, std::exception_ptr& error) {
  try {
    if (!ended_.empty()) Fail(ended_);  // checked first, because an aborted call also ends
    if (call.passed->Done()) return true;
    if (std::string fault = fault_(); !fault.empty()) Fail(fault);
    if (Clock::now() > call.deadline)
      Fail(fmt::format("timed out: the device has not come to its end within {:.1f} s",
                       std::chrono::duration<double>(call.deadline - call.issued).count()));
    return false;
  } catch (...) {
    error = std::current_exception();
    return true;
  }
}

void StreamWatch::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !calls_.empty(); });
    if (calls_.empty()) return;
    std::exception_ptr error;
    if (!IsDone(calls_.front(), error)) {
      changed_.wait_for(lock, PauseOf(Clock::now() - calls_.front().issued));
      continue;
    }
    Call call = std::move(calls_.front());
    calls_.pop_front();
    if (!error) free_.push_back(std::move(call.passed));
    lock.unlock();
    call.finished(error);
    lock.lock();
  }
}

}  // namespace weft
