// TermDelay: SIGTERM ends the process as it always does, but 0.8 seconds later. A second SIGTERM ends it at once.
//
// When a rank dies, mpirun sends SIGTERM to the others a second before it kills them. Within that second one of them
// has to report which rank died first and in which collective (FailureWatch). Commands that stop on a signal use their
// own SignalCatcher for this. At most one of the two may catch SIGTERM.
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
