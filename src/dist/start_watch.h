// StartWatch: lets a signal end a process that still waits for the other ranks to start.
//
// A program that catches signals to stop in order (SignalCatcher) can do so once its ranks know each other. Until then
// a signal is held for a moment; if the ranks have not met by then, it ends the process as it ends any.
#pragma once
#include <thread>

#include "dist/signal_catcher.h"

namespace weft {

class StartWatch {
 public:
  explicit StartWatch(const SignalCatcher& signals);
  ~StartWatch();  // the ranks have met
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void Loop() const;

  const SignalCatcher& signals_;
  Socket met_;
  std::thread thread_;
};

}  // namespace weft
