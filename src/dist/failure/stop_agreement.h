// StopAgreement: a signal to any rank stops all ranks after the same piece of work.
//
// The signalled rank tells rank 0, and rank 0 holds the gates of all, then releases them to the last piece that any of
// them has begun. A rank that does not answer leaves the others as they were: they are let go on, and all are asked
// again every second; if the rank is gone, their collectives find out.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "weft/dist/failure/side_channel.h"
#include "weft/dist/signals/signal_catcher.h"
#include "weft/dist/signals/stop_gate.h"

namespace weft {

class StopAgreement {
 public:
  // Before channel.Open, whose answers it adds to, on all ranks alike. The channel outlives it.
  explicit StopAgreement(SideChannel& channel);
  ~StopAgreement();  // closes the channel

  StopGate& gate() { return gate_; }
  // After channel.Open: from now on the signal, also one that came before, stops the job. `lost` is called when a rank
  // does not answer, from this object's thread.
  void Follow(const SignalCatcher& signals, std::function<void(int rank)> lost = {});

 private:
  void Loop(const SignalCatcher& signals);
  // False: not all could be told, try again.
  bool Request(const std::string& cause);
  bool Agree(const std::string& cause);
  void Miss(const std::string& cause, int rank);
  std::string Wake(std::string_view cause);
  std::optional<std::string> TakeAsked();

  SideChannel& channel_;
  StopGate gate_;
  std::function<void(int)> lost_;
  Socket wake_;
  std::mutex mutex_;
  std::optional<std::string> asked_;  // of rank 0, by another
  std::atomic<bool> quit_{false};
  int missed_ = -1;  // the rank that was last said not to answer
  std::thread thread_;
};

}  // namespace weft
