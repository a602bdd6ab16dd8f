// FailureWatch: ends a failed job with a line that names the rank that failed first and its collective.
//
// A call of a watched mesh or of the bootstrap fails if a peer is late, has ended or makes another call. The rank on
// which it fails then
// - asks all other ranks for their reports,
// - judges which rank failed first (verdict.h),
// - prints one line,
// - notifies the others that the line is printed, and
// - aborts the job.
//
// A rank that was notified prints nothing. All of this happens in the thread whose call failed, because unwinding could
// block on calls that never return. SIGTERM, which mpirun sends a second before it kills, must not end the process
// meanwhile. A program catches it (SignalCatcher) or delays it (TermDelay).
#pragma once
#include <mutex>
#include <optional>
#include <span>
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
  // Adds answers to the channel. Collective, and must be called before channel.Open. The channel and the bootstrap must
  // outlive this object.
  FailureWatch(SideChannel& channel, Bootstrap& bootstrap);
  ~FailureWatch();  // closes the channel

  // Sets advice for the user, which is printed on the line after the error; "" for none.
  void set_advice(const std::string& advice);
  // Describes this rank's work between collectives, for the error that reports this rank as late.
  RankActivity& activity() { return activity_; }
  // Makes a failed call of this mesh end the job. Must be called before its first call.
  void Watch(DeviceMesh& mesh);
  // Ends the job as a failed call does, for a failure that involves other ranks.
  [[noreturn]] void CallFailed(const std::string& error);
  // Ends the job for a failure of this rank only. Prints the error unless another rank has already reported a failure.
  [[noreturn]] void Fail(const std::string& error);
  // Ends the job for an exception that the program of this rank did not catch, like Fail: "weft: rank 1: <error>". All
  // ranks of a program may have the same one, so the line does not call it the first.
  [[noreturn]] void Uncaught(const std::string& error);
  // For EndWatch. Whether other ranks can ask for the calls of this mesh.
  bool ReportsOn(const DeviceMesh& mesh) const;
  // Asks the others and returns a call of that mesh in which one waits and which this rank has not made, or "". `made`
  // has the number of calls that it has made in each group.
  std::string MissedCall(std::span<const uint64_t> made) const;
  [[noreturn]] void Missed(const std::string& call);  // ends the job with this text
  int num_ranks() const { return channel_.size(); }
  // Ends the job if the process of `rank`, which did not answer, has ended.
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
  std::optional<std::vector<int>> tried_;  // the result of TryAll in that thread
};

}  // namespace weft
