// StreamWatch: a thread that notices when a device has ended the calls that it was given, and when one does not end.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/core/runtime/streams.h"

namespace weft {

class StreamWatch {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // Called once, on the thread. A null error means that the call is done.
  using Finished = std::function<void(std::exception_ptr error)>;

  // `fault` returns a fault that the device does not report, or "". The thread calls it while a call is running. The
  // device must outlive the watch. The thread also queries its events.
  StreamWatch(StreamedDevice& device, std::function<std::string()> fault);
  // Blocks until all calls have ended, which the deadlines bound.
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // Adds the call at the end of the current stream. Calls end in the order in which they are added.
  void Add(Deadline deadline, Finished finished);
  // Ends the running calls and all later ones with this error. Thread-safe.
  void End(const std::string& error);

 private:
  using Event = std::unique_ptr<DeviceRuntime::Event>;
  struct Call {
    Event passed;
    Deadline issued, deadline;
    Finished finished;
  };
  void Loop();
  bool IsDone(const Call& call, std::exception_ptr& error);

  StreamedDevice& device_;
  std::function<std::string()> fault_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  std::vector<Event> free_;
  std::string ended_;
  bool stop_ = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace weft
