// ReplayWatch: a thread that watches the calls in recordings of a device: which ones a replay has begun, which have
// ended, and which do not end.
//
// The device counts the recorded calls that it begins and ends as it runs (StreamedDevice::Progress). So the thread
// calls no function of the device, which may hang. PyTorch's and torchcomms' watchdogs for CUDA graphs do the same with
// events.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/runtime/streams.h"
#include "weft/dist/group/call_record.h"
#include "weft/dist/group/issued_call.h"

namespace weft {

// The interface of a group whose calls are recorded.
class ReplayedGroup {
 public:
  virtual ~ReplayedGroup() = default;
  // Called before a replay makes the call. Returns its number. Throws if the group has failed.
  virtual uint64_t BeginReplay(const Collective& call) = 0;
  virtual CallRecord DescribeReplay(const Collective& call, uint64_t sequence) const = 0;
  virtual const CallRecorder* ReplaysRecorder() const = 0;
  virtual std::chrono::milliseconds TimeoutOf(const Collective& call) const = 0;
  // A recorded call begins after a random time of up to this, and so does the work after it.
  virtual std::chrono::microseconds DelayOfCalls() const = 0;
  // Returns a fault of a running call that the device does not report, or "". Called on the watch's thread.
  virtual std::string Fault() const = 0;
  // The call failed, and with it the device's work. Called once, on the watch's thread, which then stops watching.
  virtual void ReplayFailed(const Collective& call, uint64_t sequence, std::exception_ptr error) = 0;
  // Ends the calls of the group that the device is running or will reach. Called from any thread. May wait until
  // recordings are gone.
  virtual void EndReplays(const std::string& reason) = 0;
};

class ReplayWatch {
 public:
  // The device must outlive the watch.
  explicit ReplayWatch(StreamedDevice& device);
  ~ReplayWatch();
  ReplayWatch(const ReplayWatch&) = delete;
  ReplayWatch& operator=(const ReplayWatch&) = delete;

  // The recorded calls of one group. The device runs them in the order in which they are recorded and replayed.
  class Track {
   public:
    // Must not be called while recording. The group must outlive the track, and the track must outlive the recordings
    // made with it.
    Track(std::shared_ptr<ReplayWatch> watch, ReplayedGroup& group);
    ~Track();
    Track(const Track&) = delete;
    Track& operator=(const Track&) = delete;

    // Requires a recording in progress. `make` issues the calls as one.
    void Record(std::span<const std::shared_ptr<const IssuedCall>> issued, absl::FunctionRef<void()> make);
    bool IsUnderWay() const;  // whether a replay has calls that the device has not ended

   private:
    friend class ReplayWatch;
    std::shared_ptr<ReplayWatch> watch_;
    ReplayedGroup& group_;
    std::unique_ptr<StreamedDevice::Progress> progress_;
    // The recording of the last call, and what followed it on its stream then:
    uint64_t recording_ = 0;
    std::vector<const void*> frontier_;
    // Protected by the watch's lock:
    uint64_t replayed_ = 0;                          // calls of all replays so far
    uint64_t seen_begun_ = 0, seen_ended_ = 0;       // last values seen by the thread
    std::chrono::steady_clock::time_point moved_{};  // when these values last changed
  };

  // Ends the replays of all groups, each on a thread of its own, because one may end only when another does.
  void EndAll(const std::string& reason);
  // Some group has calls that EndReplays cannot end.
  void set_endless() { endless_ = true; }
  // For the end of a rank that makes no more calls. If there are calls that nothing ends, waits up to `most` for the
  // replays under way. Returns whether the device has ended all of them.
  bool Drain(std::chrono::milliseconds most) const;
  // Returns the calls of replays that the device has begun, for groups with this recorder, in the order of recording.
  // Goes back to the last replay that is done.
  std::vector<CallRecord> Records(const CallRecorder* recorder) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    Track* track;
    std::shared_ptr<const IssuedCall> issued;
    uint64_t sequence = 0;
    uint64_t place = 0;              // index among the calls of its track
    std::optional<uint64_t> joined;  // if the device begins it at the end of the previous one: its index among the
                                     // calls that are issued as one
    std::chrono::milliseconds timeout{};
  };
  using Calls = std::vector<Call>;
  struct Replay {
    Calls calls;
    Clock::time_point issued;
  };
  struct Failure {
    Call call;
    std::string error;
  };
  void Begin(const Calls& recorded);
  void Loop();
  bool IsDone(const Replay& replay) const;
  static bool HasBegun(const Call& call, uint64_t ended, uint64_t begun);
  bool IsUnderWay() const { return !replays_.empty() && !IsDone(replays_.back()); }
  std::optional<Failure> Look();
  std::string FaultOf(Track& track, const Call& call) const;
  void Forget(Track& track);

  StreamedDevice& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recording_ = 0;           // the device's latest recording
  std::shared_ptr<Calls> recorded_;  // the calls of that recording
  std::vector<Track*> tracks_;
  std::deque<Replay> replays_;           // the last replay that is done, and the running ones
  Track* failing_ = nullptr;             // whose ReplayFailed is running
  bool ended_ = false, ending_ = false;  // EndAll was called; it is running
  bool stop_ = false;
  std::atomic<bool> endless_{false};
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace weft
