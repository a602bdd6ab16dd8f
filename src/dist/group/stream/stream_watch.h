// StreamWatch: a thread that notices when a device is past the calls that it was given, and which of them it does not
// come to the end of.
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
  using Finished = std::function<void(std::exception_ptr error)>;  // once, from the thread; null: the call is done

  // `fault`: what has gone wrong where the device does not say so, "": nothing. Asked by the thread while a call is
  // under way. The device outlives the watch; its events are asked by the thread, too.
  StreamWatch(StreamedDevice& device, std::function<std::string()> fault);
  // Waits until all calls have ended; the deadlines bound that.
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  // A call stands at the end of the current stream. Calls end in the order in which they are added.
  void Add(Deadline deadline, Finished finished);
  // The calls under way end with this error, those added later too.
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
  std::thread thread_;  // last: it uses the others
};

}  // namespace weft
