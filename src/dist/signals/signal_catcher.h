// SignalCatcher: signals that ask a process to stop, as a file descriptor to wait for. The first one is held for
// whoever waits; a second one does what it does to any process, at once.
//
// A handler reaches nothing but globals. This one reaches the catcher that is alive, through one lock-free pointer that
// the catcher sets and clears, and all it does there is to store two lock-free numbers and to write to an eventfd. A
// signalfd would need no handler, but wants the signals blocked in every thread, and libraries start threads before
// main.
#pragma once
#include <atomic>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "weft/dist/net/tcp_socket.h"

namespace weft {

class SignalCatcher {
 public:
  // At most one is alive in a process. Throws Error where there is another.
  explicit SignalCatcher(std::initializer_list<int> signals);
  ~SignalCatcher();  // the signals do again what they did before
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;

  int fd() const { return event_.fd(); }         // readable from the first signal on
  int signal() const { return signal_.load(); }  // the first; 0: none yet

 private:
  static void Handle(int signal);
  void Catch(int signal);

  std::atomic<int64_t> when_{0};  // ns, of the first
  std::atomic<int> signal_{0};
  Socket event_;
  struct Saved {
    int signal;
    struct sigaction action;
  };
  std::vector<Saved> saved_;
  static std::atomic<SignalCatcher*> alive_;
};

const char* SignalName(int signal);  // "SIGTERM"

}  // namespace weft
