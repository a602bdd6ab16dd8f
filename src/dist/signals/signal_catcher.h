// SignalCatcher: turns signals that ask a process to stop into a file descriptor to poll. The first signal is kept for
// the thread that polls. A second one has its default effect at once.
//
// A signal handler can reach only globals. This one reaches the live catcher through a lock-free pointer per signal,
// which the catcher sets and clears. It only stores two lock-free numbers and writes to an eventfd. A signalfd would
// need no handler, but it requires the signals to be blocked in every thread, and libraries start threads before main.
#pragma once
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "weft/dist/net/tcp_socket.h"

namespace weft {

class SignalCatcher {
 public:
  // At most one catcher per signal may be alive in a process. Throws Error if there is another.
  explicit SignalCatcher(std::initializer_list<int> signals);
  ~SignalCatcher();  // restores the former signal actions
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;

  int fd() const { return event_.fd(); }         // readable from the first signal on
  int signal() const { return signal_.load(); }  // the first signal; 0 before one comes
  // Forgets the first signal, so that the next one is the first again.
  void Rearm();

 private:
  void Release();
  static void Handle(int signal);
  void Catch(int signal);

  std::atomic<int64_t> when_{0};  // time of the first signal, in ns
  std::atomic<int> signal_{0};
  Socket event_;
  struct Saved {
    int signal;
    struct sigaction action;
  };
  std::vector<Saved> saved_;
  static std::array<std::atomic<SignalCatcher*>, NSIG> alive_;
};

const char* SignalName(int signal);  // "SIGTERM"

}  // namespace weft
