#include "weft/dist/start/signal_relay.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "weft/core/host/message.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};  // as StartWatch has with one process
constexpr std::chrono::milliseconds kEnding{2500};    // mpirun takes about a second to end the ranks

}  // namespace

void SignalRelay::Act(pid_t mpirun) {
  int signal = signals_.signal();
  if (signal == 0 || passed_on_) return;
  if (!at_) at_ = Clock::now();
  bool interrupts = control_ == RankControl::kConverse && signal == SIGINT;
  if (ended_by_ != 0) {
    if (Clock::now() > *at_ + kEnding) ::kill(mpirun, SIGKILL);
  } else if ((interrupts || control_ == RankControl::kStop) && ready_.Ready()) {
    ::kill(mpirun, SIGUSR1);
    passed_on_ = !interrupts;
    at_.reset();
    if (interrupts) signals_.Rearm();
  } else if (!IsHeld(signal)) {
    End(signal, mpirun);
  }
}

// SIGUSR1 waits for the first step however long that takes, as with one process whose ranks have met.
bool SignalRelay::IsHeld(int signal) const {
  return control_ == RankControl::kStop && (signal == SIGUSR1 || Clock::now() < *at_ + kPatience);
}

void SignalRelay::End(int signal, pid_t mpirun) {
  if (control_ == RankControl::kStop) PrintStderr("weft: {} before the run had begun\n", SignalName(signal));
  ::kill(mpirun, SIGTERM);
  ended_by_ = signal;
  at_ = Clock::now();
}

int SignalRelay::ExitCode(int status) const {
  if (ended_by_ != 0) return 128 + ended_by_;
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  int code = WEXITSTATUS(status), signal = code - 128;
  if (signal > 0 && signal < NSIG && signals_.signal() == 0)
    PrintStderr("mpirun: signal {} ({}) ended a rank\n", signal, ::strsignal(signal));
  return code;
}

}  // namespace weft
