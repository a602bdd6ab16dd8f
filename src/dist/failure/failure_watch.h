// FailureWatch: ends a job that has failed, with a line that says which rank failed first and in which collective.
//
// A rank whose call fails, of a watched mesh or of the bootstrap (a peer is late, gone, or makes another call) asks all
// others what they did, judges, prints one line, tells the others that it is said, and aborts. A rank that has been
// told says no more. It does so in the thread whose call failed: unwinding would wait for others that wait in vain.
// SIGTERM, which mpirun sends a second before it kills, must not end the process meanwhile: a program catches it
// (SignalCatcher) or delays it (TermDelay).
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/dist/failure/rank_report.h"
#include "weft/dist/failure/side_channel.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/rank_activity.h"

namespace weft {

class FailureWatch {
 public:
  // Before channel.Open, whose answers it adds to, on all ranks alike. Channel and bootstrap outlive it.
  FailureWatch(SideChannel& channel, Bootstrap& bootstrap);
  ~FailureWatch();  // closes the channel

  // What a person can do once the job has failed: a line under the one that names the rank; "" for none.
  void set_advice(const std::string& advice);
  // What this rank does between its collectives, for the line that names it where it is late.
  RankActivity& activity() { return activity_; }
  // From now on a failed call of this mesh ends the job. Before its first call.
  void Watch(DeviceMesh& mesh);
  // Something that needs other ranks failed on this one: ends the job as a failed call does.
  [[noreturn]] void CallFailed(const std::string& error);
  // This rank failed by itself: says so, unless another rank is known to have failed before, and ends the job.
  [[noreturn]] void Fail(const std::string& error);
  // A rank that did not answer: ends the job if its process is gone.
  void CheckLost(int rank);

 private:
  RankReport Mine() const;
  std::vector<RankReport> Ask() const;
  RankReport AskOne(int rank) const;
  void FindStopped(std::vector<RankReport>& reports) const;
  std::string LookAt(std::string_view rank) const;
  void FindCuts(std::vector<RankReport>& reports) const;
  std::vector<int> TryAll() const;
  void BeginTrying();
  std::string Tried() const;
  bool IsSaid() const;
  void Begin(const std::string& error);
  [[noreturn]] void End(const std::string& line, bool is_lost = false);

  SideChannel& channel_;
  Bootstrap& bootstrap_;
  mutable std::mutex mutex_;
  std::shared_ptr<CallRecorder> recorder_;
  std::optional<RankReport::Time> failed_;
  std::string error_;
  std::string advice_;
  RankActivity activity_;
  bool exchange_failed_ = false;
  bool said_ = false;  // by another rank
  std::thread trying_;
  std::optional<std::vector<int>> tried_;  // what TryAll of that thread returned
};

}  // namespace weft
