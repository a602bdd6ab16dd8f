// StopAgreement: a signal to any rank stops all ranks after the same piece of work.
//
// The signalled rank asks rank 0. Rank 0 holds the gates of all ranks and releases them with the last piece that any
// rank has begun. If a rank does not answer, the others resume, and all are asked again every second. If that rank has
// ended, the collectives of the others detect it.
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
  // Adds answers to the channel. Collective, and must be called before channel.Open. The channel must outlive this
  // object.
  explicit StopAgreement(SideChannel& channel);
  ~StopAgreement();  // closes the channel

  StopGate& gate() { return gate_; }
  // Makes the signal stop the job, also if it came earlier. Must be called after channel.Open. `lost` is called on this
  // object's thread if a rank does not answer.
  void Follow(const SignalCatcher& signals, std::function<void(int rank)> lost = {});

 private:
  void Loop(const SignalCatcher& signals);
  // Returns false if a rank did not answer, to try again.
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
  std::optional<std::string> asked_;  // on rank 0: the cause that another rank sent
  std::atomic<bool> quit_{false};
  int missed_ = -1;  // the last rank that was reported as not answering
  std::thread thread_;
};

}  // namespace weft
