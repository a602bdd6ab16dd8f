#include "weft/dist/failure/failure_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "weft/core/host/message.h"
#include "weft/core/host/small_file.h"
#include "weft/dist/failure/verdict.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using State = RankReport::State;
using std::chrono::milliseconds;

constexpr char kReport = 'R', kSaid = 'N', kLook = 'P', kTry = 'T', kTried = 'U';
constexpr size_t kCalls = 256;               // compared calls per rank
constexpr milliseconds kPatience{500};       // for an answer
constexpr milliseconds kMorePatience{1000};  // for that of a process that is known to run
constexpr milliseconds kDying{400};          // a dying process closes its connections before it is gone
constexpr milliseconds kLookPatience{200}, kTellPatience{200};
constexpr milliseconds kTryPatience{500};          // for each rank to answer another one
constexpr milliseconds kTriedBy{800}, kAgain{50};  // for all ranks to try all others

// Returns the state of a process of this process's pid namespace, or kAnswered if it runs.
State StateOf(int pid) {
  std::string text = SmallFileText(fmt::format("/proc/{}/stat", pid));
  size_t name = text.rfind(") ");
  if (name == std::string::npos || name + 2 >= text.size()) return State::kDied;
  char state = text[name + 2];
  if (state == 'T' || state == 't') return State::kStopped;
  return state == 'Z' || state == 'X' ? State::kDied : State::kAnswered;
}

// Returns why a process of this host closed its side of the channel.
State StateOfClosed(int pid) {
  for (Clock::time_point until = Clock::now() + kDying; Clock::now() < until;) {
    if (State state = StateOf(pid); state != State::kAnswered) return state;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return State::kLeft;
}

// Returns whether a rank is unreachable for this rank or for another one.
bool IsOutOfReach(const RankReport& report) { return report.state == State::kSilent || !report.unreached.empty(); }

// Returns the first line of an error, or a replacement if it has no text.
std::string FirstLine(std::string_view error) {
  error.remove_prefix(std::min(error.find_first_not_of(" \n"), error.size()));
  return error.empty() ? "an error without a message" : std::string(error.substr(0, error.find('\n')));
}

}  // namespace

FailureWatch::FailureWatch(SideChannel& channel, Bootstrap& bootstrap) : channel_(channel), bootstrap_(bootstrap) {
  channel.On(kReport, [this](std::string_view) { return Encode(Mine()); });
  channel.On(kLook, [this](std::string_view rank) { return LookAt(rank); });
  channel.On(kTry, [this](std::string_view) {
    BeginTrying();
    return std::string();
  });
  channel.On(kTried, [this](std::string_view) { return Tried(); });
  channel.On(kSaid, [this](std::string_view) {
    std::lock_guard lock(mutex_);
    said_ = true;
    return std::string();
  });
  bootstrap.set_failure_handler([this](const std::string& error) {
    {
      std::lock_guard lock(mutex_);
      exchange_failed_ = true;
    }
    CallFailed(error);
  });
}

FailureWatch::~FailureWatch() {
  bootstrap_.set_failure_handler({});
  channel_.Close();
  if (trying_.joinable()) trying_.join();
}

void FailureWatch::set_advice(const std::string& advice) {
  std::lock_guard lock(mutex_);
  advice_ = advice.empty() ? "" : advice + "\n";
}

void FailureWatch::Watch(DeviceMesh& mesh) {
  {
    std::lock_guard lock(mutex_);
    recorder_ = mesh.recorder();
  }
  mesh.set_failure_handler([this](const std::string& error) { CallFailed(error); });
}

RankReport FailureWatch::Mine() const {
  std::lock_guard lock(mutex_);
  RankReport mine{.state = State::kAnswered,
                  .failed = failed_,
                  .error = error_,
                  .exchanges = bootstrap_.exchanges(),
                  .exchange_failed = exchange_failed_,
                  .activity = activity_.Text()};
  if (!recorder_) return mine;
  mine.groups = recorder_->Groups();
  mine.calls = recorder_->Last(kCalls);
  return mine;
}

RankReport FailureWatch::AskOne(int rank) const {
  RankReport report;
  bool near = channel_.Sees(channel_.rank(), rank);
  int pid = channel_.peer(rank).pid;
  if (near && StateOf(pid) == State::kStopped) {
    report.state = State::kStopped;  // it could not answer
  } else {
    SideChannel::Reply reply = channel_.Ask(rank, kReport, "", kPatience);
    // Neither its host nor the network is down, so other processes have its processor.
    if (reply.reach == SideChannel::Reach::kSilent && near && StateOf(pid) == State::kAnswered)
      reply = channel_.Ask(rank, kReport, "", kMorePatience);
    if (reply.reach == SideChannel::Reach::kAnswered && Decode(reply.text, &report))
      report.state = State::kAnswered;
    else if (reply.reach == SideChannel::Reach::kClosed)
      report.state = near ? StateOfClosed(pid) : State::kDied;
    else if (reply.reach == SideChannel::Reach::kLeft)
      report.state = near ? StateOfClosed(pid) : State::kLeft;
  }
  report.host = channel_.peer(rank).host;
  report.pid = pid;
  return report;
}

// Returns "T" if the rank is in this pid namespace and suspended.
std::string FailureWatch::LookAt(std::string_view text) const {
  int rank = -1;
  std::from_chars(text.data(), text.data() + text.size(), rank);
  bool here = rank >= 0 && rank < channel_.size() && channel_.Sees(channel_.rank(), rank);
  return here && StateOf(channel_.peer(rank).pid) == State::kStopped ? "T" : "";
}

// A silent rank on another host may be visible to a rank there that has answered.
void FailureWatch::FindStopped(std::vector<RankReport>& reports) const {
  for (int silent = 0; silent < channel_.size(); silent++) {
    RankReport& report = reports[size_t(silent)];
    for (int near = 0; near < channel_.size() && report.state == State::kSilent; near++) {
      const RankReport& other = reports[size_t(near)];
      if (other.state != State::kAnswered || !channel_.Sees(near, silent)) continue;
      SideChannel::Reply reply = channel_.Ask(near, kLook, std::to_string(silent), kLookPatience);
      if (reply.text == "T") report.state = State::kStopped;
      if (reply.reach == SideChannel::Reach::kAnswered) break;
    }
  }
}

std::vector<int> FailureWatch::TryAll() const {
  std::vector<char> reached(size_t(channel_.size()));
  ForAllRanks(channel_.size(), [&](int r) { reached[size_t(r)] = channel_.CanReach(r, kTryPatience); });
  std::vector<int> unreached;
  for (int r = 0; r < channel_.size(); r++)
    if (!reached[size_t(r)]) unreached.push_back(r);
  return unreached;
}

// Runs on the network thread, which must not block, so another thread tries, once.
void FailureWatch::BeginTrying() {
  std::lock_guard lock(mutex_);
  if (trying_.joinable()) return;
  trying_ = std::thread([this] {
    std::vector<int> unreached = TryAll();
    std::lock_guard own_lock(mutex_);
    tried_ = std::move(unreached);
  });
}

// Returns "tried 2 5", or "" until TryAll is done.
std::string FailureWatch::Tried() const {
  std::lock_guard lock(mutex_);
  return tried_ ? fmt::format("tried {}", fmt::join(*tried_, " ")) : "";
}

// Finds network cuts between two ranks that others can reach. Costs little if there are none.
void FailureWatch::FindCuts(std::vector<RankReport>& reports) const {
  auto is_gone = [](const RankReport& r) { return r.state != State::kAnswered && r.state != State::kSilent; };
  if (std::any_of(reports.begin(), reports.end(), is_gone)) return;
  auto deadline = Clock::now() + kTriedBy;
  ForAllRanks(channel_.size(), [&](int r) {
    RankReport& report = reports[size_t(r)];
    if (report.state != State::kAnswered) return;
    if (r == channel_.rank()) {
      report.unreached = TryAll();
      return;
    }
    channel_.Ask(r, kTry, "", kLookPatience);
    for (; Clock::now() < deadline; std::this_thread::sleep_for(kAgain)) {
      std::istringstream text(channel_.Ask(r, kTried, "", kLookPatience).text);
      std::string tried;
      if (!(text >> tried)) continue;
      for (int rank; text >> rank;) report.unreached.push_back(rank);
      return;
    }
  });
}

// A rank that was suspended finds the others gone when it resumes. They have left it a notice, so it reads its pending
// questions first.
std::vector<RankReport> FailureWatch::Ask() const {
  channel_.Drain(kPatience);
  std::vector<RankReport> reports(static_cast<size_t>(channel_.size()));
  ForAllRanks(channel_.size(), [&](int r) { reports[size_t(r)] = AskOne(r); });
  FindStopped(reports);
  FindCuts(reports);
  return reports;
}

bool FailureWatch::IsSaid() const {
  std::lock_guard lock(mutex_);
  return said_;
}

// Only the first failing thread continues. Others wait for the end of the process.
void FailureWatch::Begin(const std::string& error) {
  std::unique_lock lock(mutex_);
  if (failed_) {
    lock.unlock();
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  failed_ = Clock::now();
  error_ = FirstLine(error);
}

void FailureWatch::End(const std::string& line, bool is_lost) {
  bool said = IsSaid();
  if (!said) {
    std::fflush(stdout);
    std::unique_lock lock(mutex_);
    PrintStderr("weft: {}\n{}", line, advice_);
    lock.unlock();
    std::fflush(stderr);
    auto tell = [&](int r) {
      if (r == channel_.rank()) return;
      SideChannel::Reply reply = channel_.Ask(r, kSaid, "", kTellPatience);
      if (reply.reach == SideChannel::Reach::kSilent) channel_.Leave(r, kSaid);
    };
    if (channel_.IsOpen()) ForAllRanks(channel_.size(), tell);
  }
  if (said) bootstrap_.Leave(1);
  if (is_lost) bootstrap_.AbortWithLoss(1);
  bootstrap_.Abort(1);
  std::_Exit(1);  // unreachable, but the compiler assumes that a virtual function may return
}

void FailureWatch::CallFailed(const std::string& error) {
  Begin(error);
  std::string mine = fmt::format("rank {} (host {}, pid {}): {}", channel_.rank(), bootstrap_.host(), getpid(),
                                 error.empty() ? FirstLine(error) : error);
  if (!channel_.IsOpen()) End(mine);
  std::vector<RankReport> reports = Ask();
  if (IsSaid()) End("");
  Verdict verdict = Judge(reports);
  End(verdict.rank >= 0 ? verdict.text : mine, std::any_of(reports.begin(), reports.end(), IsOutOfReach));
}

void FailureWatch::Fail(const std::string& error) {
  Begin(error);
  RankReport mine = Mine();
  std::string last;
  if (!mine.calls.empty()) {
    const CallRecord& call = mine.calls.back();
    last = fmt::format("; its last call: {} #{} on {}", Name(call.op), call.sequence,
                       mine.groups[size_t(call.group)].name);
  }
  End(fmt::format("rank {} (host {}, pid {}) failed first: {}{}", channel_.rank(), bootstrap_.host(), getpid(),
                  error.empty() ? FirstLine(error) : error, last));
}

void FailureWatch::Uncaught(const std::string& error) {
  Begin(error);
  std::string text = error.empty() ? FirstLine(error) : error;
  End(channel_.size() > 1 ? fmt::format("rank {}: {}", channel_.rank(), text) : text);
}

bool FailureWatch::ReportsOn(const DeviceMesh& mesh) const {
  std::lock_guard lock(mutex_);
  return recorder_ == mesh.recorder();
}

std::string FailureWatch::MissedCall(std::span<const uint64_t> made) const {
  std::vector<RankReport> reports(static_cast<size_t>(channel_.size()));
  ForAllRanks(channel_.size(), [&](int r) { reports[size_t(r)] = AskOne(r); });
  return MissedBy(reports, channel_.rank(), made);
}

void FailureWatch::Missed(const std::string& call) {
  Begin(call);
  End(fmt::format("rank {} (host {}, pid {}) has ended, or left the scope of its mesh: {}", channel_.rank(),
                  bootstrap_.host(), getpid(), call));
}

void FailureWatch::CheckLost(int rank) {
  if (AskOne(rank).state == State::kDied) CallFailed(fmt::format("rank {} is gone", rank));
}

}  // namespace weft
