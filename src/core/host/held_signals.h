// HeldSignals: while it lives, no handler of a signal that others send runs on this thread. The signal runs on another
// thread, or here afterwards.
#pragma once
#include <csignal>

namespace weft {

class HeldSignals {
 public:
  HeldSignals() {
    sigset_t sent;
    sigfillset(&sent);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
      sigdelset(&sent, own);  // the thread's own faults
    pthread_sigmask(SIG_BLOCK, &sent, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace weft
