// StartWatch: lets a signal end a process whose run has not begun.
//
// A program that catches signals to stop in order (SignalCatcher) can do so once its ranks know each other and ask
// their gates. Until then a signal is held for a moment. If the run has not begun by then, it ends the process as it
// ends any: each signal while ranks start, SIGTERM and SIGINT while they read data or load weights.
#pragma once
#include <atomic>
#include <thread>

#include "weft/dist/signals/signal_catcher.h"

namespace weft {

class StartWatch {
 public:
  explicit StartWatch(const SignalCatcher& signals);
  ~StartWatch();
  void Met();    // the ranks have
  void Begun();  // the run has; thread-safe
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void Loop() const;

  const SignalCatcher& signals_;
  std::atomic<bool> met_{false};
  Socket begun_;
  std::thread thread_;
};

}  // namespace weft
