// StopGate: where a rank asks, before each piece of work that all ranks do alike (a step, a batch of an evaluation),
// whether it is still to be done. It costs a lock that nobody contends for.
//
// To stop, the gates of all ranks are held: none begins another piece. Each says how many it has begun, and all are
// released to the largest such number: the piece in progress is finished everywhere, and no rank begins one that
// another does not. Nothing is exchanged until then.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>

namespace weft {

class StopGate {
 public:
  // True: begin the next piece. False: all ranks stop here. Waits while the gate is held.
  bool Enter();
  // How many pieces were begun, after which none begins until Release or Resume. Where it was released, that number.
  int64_t Hold();
  // Pieces up to `last` are done, and no more. The first release stands.
  void Release(int64_t last, const std::string& cause);
  // As before Hold.
  void Resume();
  std::string cause() const;  // what it was released with
  // Has `begun` called when a piece is first asked for. Before that.
  void OnFirst(std::function<void()> begun);

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t begun_ = 0, last_ = kNever;
  bool held_ = false;
  std::string cause_;
  std::function<void()> first_;
};

}  // namespace weft
