// TermDelay: SIGTERM ends the process as it always does, but a second later; a second one ends it at once.
//
// mpirun sends SIGTERM to the ranks that a dead one leaves, a second before it kills them. One of them has to say by
// then who died first, and in which collective (FailureWatch). Commands that a signal stops have a SignalCatcher of
// their own for this; at most one of the two is alive.
#pragma once
#include <thread>

#include "weft/dist/signals/signal_catcher.h"

namespace weft {

class TermDelay {
 public:
  TermDelay();
  ~TermDelay();
  TermDelay(const TermDelay&) = delete;
  TermDelay& operator=(const TermDelay&) = delete;

 private:
  void Loop();

  SignalCatcher signals_{SIGTERM};
  Socket quit_;
  std::thread thread_;
};

}  // namespace weft
