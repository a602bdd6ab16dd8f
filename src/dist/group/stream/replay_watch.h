// ReplayWatch: a thread that watches the calls that stand in recordings of a device: which of them a replay has come
// to, which it is past, and which it does not come to the end of.
//
// Around every recorded call stand two counters that the device moves on as it goes (StreamedDevice::Counter), so the
// thread calls nothing of the device, which may hang. The way is that of PyTorch's and torchcomms' watchdogs for CUDA
// graphs, with counters in place of events.
#pragma once
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

// A group whose calls are recorded, as the watch sees it.
class ReplayedGroup {
 public:
  virtual ~ReplayedGroup() = default;
  // Before a replay makes the call: its number. Throws where the group has failed.
  virtual uint64_t BeginReplay(const Collective& call) = 0;
  virtual CallRecord DescribeReplay(const Collective& call, uint64_t sequence) const = 0;
  virtual const CallRecorder* ReplaysRecorder() const = 0;
  virtual std::chrono::milliseconds TimeoutOf(const Collective& call) const = 0;
  // What has gone wrong with a call under way where the device does not say so; "": nothing. From the watch's thread.
  virtual std::string Fault() const = 0;
  // The call failed, and with it the device's work. Once, from the watch's thread, which then watches no more.
  virtual void ReplayFailed(const Collective& call, uint64_t sequence, std::exception_ptr error) = 0;
  // Ends the group's calls that the device is at or will come to, from any thread; may wait until recordings are gone.
  virtual void EndReplays(const std::string& reason) = 0;
};

class ReplayWatch {
 public:
  // The device outlives the watch.
  explicit ReplayWatch(StreamedDevice& device);
  ~ReplayWatch();
  ReplayWatch(const ReplayWatch&) = delete;
  ReplayWatch& operator=(const ReplayWatch&) = delete;

  // The recorded calls of one group. The device makes them in the order in which they are recorded and replayed.
  class Track {
   public:
    // Not while recording. The group outlives the track, and the track what was recorded with it.
    Track(std::shared_ptr<ReplayWatch> watch, ReplayedGroup& group);
    ~Track();
    Track(const Track&) = delete;
    Track& operator=(const Track&) = delete;

    // While recording: `make` issues the calls, as one.
    void Record(std::span<const std::shared_ptr<const IssuedCall>> issued, absl::FunctionRef<void()> make);
    bool IsUnderWay() const;  // a replay has calls that the device is not past

   private:
    friend class ReplayWatch;
    std::shared_ptr<ReplayWatch> watch_;
    ReplayedGroup& group_;
    std::unique_ptr<StreamedDevice::Counter> begun_, ended_;
    // By the watch's lock:
    uint64_t replayed_ = 0;                          // calls of all replays so far
    uint64_t seen_begun_ = 0, seen_ended_ = 0;       // by the thread
    std::chrono::steady_clock::time_point moved_{};  // when it saw that
  };

  // Ends the replays of all groups: each waits for others in calls of its own.
  void EndAll(const std::string& reason);
  // The calls of replays that the device is at or past, as far back as the last replay that it is done with: those of
  // groups with this recorder, in the order in which they were recorded.
  std::vector<CallRecord> Records(const CallRecorder* recorder) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    Track* track;
    std::shared_ptr<const IssuedCall> issued;
    uint64_t sequence = 0;
    uint64_t place = 0;  // among the calls of its track
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
  bool IsUnderWay() const { return !replays_.empty() && !IsDone(replays_.back()); }
  std::optional<Failure> Look();
  std::string FaultOf(Track& track, const Call& call) const;
  void Forget(Track& track);

  StreamedDevice& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recording_ = 0;           // the device's latest, whose calls
  std::shared_ptr<Calls> recorded_;  // these are
  std::vector<Track*> tracks_;
  std::deque<Replay> replays_;           // the last that is done, and those under way
  Track* failing_ = nullptr;             // told of a failure now
  bool ended_ = false, ending_ = false;  // EndAll was called; it goes on
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace weft
