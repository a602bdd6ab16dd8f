// StartWatch: lets a signal end a process whose run has not begun.
//
// A program that catches signals to stop in order (SignalCatcher) can do so once its ranks have met and ask their
// gates. Before that, a signal is held for two seconds. If the run has not begun by then, the process ends with exit
// code 128 plus the signal's number. While the ranks start, every caught signal does this. While they read data or load
// weights, only SIGTERM and SIGINT do.
#pragma once
#include <atomic>
#include <thread>

#include "weft/dist/signals/signal_catcher.h"

namespace weft {

class StartWatch {
 public:
  explicit StartWatch(const SignalCatcher& signals);
  ~StartWatch();
  void Met();    // the ranks have met; thread-safe
  void Begun();  // the run has begun; thread-safe
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
