// SignalRelay: what a signal to the program that started mpirun does to the ranks.
//
// mpirun forwards only SIGUSR1, so ranks that take signals in order get it for any signal. Until they do (ReadyPipe),
// SIGUSR1 would end mpirun or a rank, or be lost. So a run gets two seconds to begin, as StartWatch gives a single
// process, and the signal is passed on then. If it has not begun by then, or if its ranks take no signals, the relay
// ends mpirun, and mpirun ends the ranks.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "weft/dist/signals/signal_catcher.h"
#include "weft/dist/start/ready_pipe.h"

namespace weft {

// What happens to the ranks of a command when a signal comes.
enum class RankControl : uint8_t {
  kEnd,       // a signal ends them
  kStop,      // SIGTERM, SIGINT and SIGUSR1 ask them to stop
  kConverse,  // rank 0 reads stdin and takes each SIGUSR1 as an interrupt
};

class SignalRelay {
 public:
  // Must be made before mpirun is started. The catcher must outlive this object.
  SignalRelay(SignalCatcher& signals, RankControl control) : signals_(signals), control_(control) {}

  // Does what the caught signal requires now. To be called again and again while mpirun runs.
  void Act(pid_t mpirun);
  // Returns the exit code for the status with which mpirun ended: 128 plus the number of the signal by which the relay
  // ended it, or which ended mpirun, and else mpirun's own. If that is the code of a rank that a signal ended, prints
  // that signal, as a quiet mpirun does not.
  int ExitCode(int status) const;

 private:
  using Clock = std::chrono::steady_clock;
  bool IsHeld(int signal) const;
  void End(int signal, pid_t mpirun);

  SignalCatcher& signals_;
  RankControl control_;
  ReadyPipe ready_;
  bool passed_on_ = false;
  int ended_by_ = 0;                     // the signal by which this ended mpirun
  std::optional<Clock::time_point> at_;  // when the signal was seen, and later, when mpirun was ended
};

}  // namespace weft
