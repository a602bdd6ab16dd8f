#include "weft/dist/group/stream/replay_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kPause{5};      // between two checks
constexpr std::chrono::milliseconds kSuspect{100};  // a call of this age may have failed without a report

}  // namespace

ReplayWatch::ReplayWatch(StreamedDevice& device) : device_(device), thread_([this] { Loop(); }) {}

ReplayWatch::~ReplayWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

ReplayWatch::Track::Track(std::shared_ptr<ReplayWatch> watch, ReplayedGroup& group)
    : watch_(std::move(watch)), group_(group), progress_(watch_->device_.NewProgress()) {
  std::lock_guard lock(watch_->mutex_);
  watch_->tracks_.push_back(this);
}

ReplayWatch::Track::~Track() { watch_->Forget(*this); }

void ReplayWatch::Track::Record(std::span<const std::shared_ptr<const IssuedCall>> issued,
                                absl::FunctionRef<void()> make) {
  ReplayWatch& w = *watch_;
  uint64_t recording = w.device_.recording();
  if (w.recording_ != recording) {
    w.recording_ = recording;
    w.recorded_ = std::make_shared<Calls>();
    w.device_.BeforeReplay([&w, recorded = w.recorded_] { w.Begin(*recorded); });
  }
  std::chrono::microseconds delay = group_.DelayOfCalls();
  // A kernel that counts costs 0.1 of a small all-reduce (tests/bench/results.md). If there is nothing between two
  // calls, the end of the first is also the begin of the second.
  bool joins = !delay.count() && recording_ == recording && frontier_ == w.device_.Frontier();
  uint64_t calls = issued.size();
  if (delay.count()) progress_->Linger(delay);
  if (!joins) progress_->Add(calls, 0);
  make();
  progress_->Add(joins ? calls : 0, calls);
  if (delay.count()) progress_->Linger(delay);
  recording_ = recording;
  frontier_ = w.device_.Frontier();
  for (uint64_t i = 0; i < calls; i++) {
    w.recorded_->push_back({.track = this, .issued = issued[i]});
    if (joins) w.recorded_->back().joined = i;
  }
}

bool ReplayWatch::Track::IsUnderWay() const {
  std::lock_guard lock(watch_->mutex_);
  return progress_->ended() < replayed_;
}

// Runs before the replay is issued, on the thread that issues it.
void ReplayWatch::Begin(const Calls& recorded) {
  Replay replay{recorded, Clock::now()};
  for (Call& call : replay.calls) {
    call.timeout = call.track->group_.TimeoutOf(call.issued->call);
    call.sequence = call.track->group_.BeginReplay(call.issued->call);
  }
  {
    std::lock_guard lock(mutex_);
    for (Call& call : replay.calls) call.place = call.track->replayed_++;
    while (replays_.size() > 1 && IsDone(replays_[1])) replays_.pop_front();
    replays_.push_back(std::move(replay));
  }
  changed_.notify_all();
}

bool ReplayWatch::IsDone(const Replay& replay) const {
  return std::all_of(replay.calls.rbegin(), replay.calls.rend(),
                     [](const Call& call) { return call.place < call.track->progress_->ended(); });
}

bool ReplayWatch::HasBegun(const Call& call, uint64_t ended, uint64_t begun) {
  return call.place < begun || (call.joined && call.place - *call.joined <= ended);
}

void ReplayWatch::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || ended_ || IsUnderWay(); });
    if (stop_ || ended_) return;
    if (std::optional<Failure> failure = Look()) {
      Call& call = failure->call;
      failing_ = call.track;
      lock.unlock();
      call.track->group_.ReplayFailed(call.issued->call, call.sequence, std::make_exception_ptr(Error(failure->error)));
      EndAll("an earlier call failed");
      lock.lock();
      failing_ = nullptr;
      changed_.notify_all();
      return;
    }
    changed_.wait_for(lock, kPause, [this] { return stop_ || ended_; });
  }
}

// The calls of one group may end only when those of another do, so no group waits for another here.
void ReplayWatch::EndAll(const std::string& reason) {
  std::vector<Track*> tracks;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    ending_ = true;
    tracks = tracks_;
  }
  std::vector<std::thread> threads;
  for (Track* track : tracks) threads.emplace_back([track, &reason] { track->group_.EndReplays(reason); });
  for (std::thread& thread : threads) thread.join();
  std::lock_guard lock(mutex_);
  ending_ = false;
  changed_.notify_all();
}

// Polls, because nothing reports the end of a replay. After EndAll its calls only seem to end.
bool ReplayWatch::Drain(std::chrono::milliseconds most) const {
  auto until = Clock::now() + most;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (!IsUnderWay()) return true;
      if (!endless_ || ended_ || device_.failure()) return false;
    }
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(kPause);
  }
}

// Checks the call that the device is running, for each group.
std::optional<ReplayWatch::Failure> ReplayWatch::Look() {
  for (Track* track : tracks_) {
    uint64_t ended = track->progress_->ended(), begun = track->progress_->begun();
    if (begun != track->seen_begun_ || ended != track->seen_ended_) track->moved_ = Clock::now();
    track->seen_begun_ = begun;
    track->seen_ended_ = ended;
    for (const Replay& replay : replays_)
      for (const Call& call : replay.calls)
        if (call.track == track && call.place == ended && HasBegun(call, ended, begun))
          if (std::string error = FaultOf(*track, call); !error.empty()) return Failure{call, std::move(error)};
  }
  return std::nullopt;
}

std::string ReplayWatch::FaultOf(Track& track, const Call& call) const {
  auto waited = Clock::now() - track.moved_;
  if (waited > call.timeout)
    return fmt::format("timed out: the device has not come to its end within {:.1f} s",
                       std::chrono::duration<double>(call.timeout).count());
  return waited > kSuspect ? track.group_.Fault() : "";
}

std::vector<CallRecord> ReplayWatch::Records(const CallRecorder* recorder) const {
  std::vector<CallRecord> records;
  std::lock_guard lock(mutex_);
  for (const Replay& replay : replays_)
    for (const Call& call : replay.calls) {
      uint64_t ended = call.track->progress_->ended(), begun = call.track->progress_->begun();
      if (call.track->group_.ReplaysRecorder() != recorder || !HasBegun(call, ended, begun)) continue;
      CallRecord record = call.track->group_.DescribeReplay(call.issued->call, call.sequence);
      record.start = replay.issued;
      record.done = call.place < ended;
      records.push_back(record);
    }
  return records;
}

void ReplayWatch::Forget(Track& track) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failing_ != &track && !ending_; });
  std::erase(tracks_, &track);
  for (Replay& replay : replays_) std::erase_if(replay.calls, [&](const Call& call) { return call.track == &track; });
}

}  // namespace weft
