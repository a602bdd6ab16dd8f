// StopGate: a rank asks it before each piece of work that all ranks do alike (a step, a batch of an evaluation) whether
// that piece is still to be done. Asking costs an uncontended lock.
//
// To stop the job, all gates are held, so that no rank begins another piece. Each gate returns how many pieces its rank
// has begun, and all gates are released with the largest of these numbers. So every rank finishes the piece in
// progress, and no rank begins a piece that another does not. Ranks exchange nothing before a stop. All functions are
// thread-safe.
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
  // Returns true to begin the next piece, false if all ranks stop here. Blocks while the gate is held, but no longer
  // than 20 s, because the rank that holds it may have ended.
  bool Enter();
  // Returns how many pieces were begun, and lets none begin until Release or Resume. After a Release it returns the
  // released number and holds nothing.
  int64_t Hold();
  // Lets pieces up to `last` begin, and no more. Only the first release counts.
  void Release(int64_t last, const std::string& cause);
  // Undoes Hold.
  void Resume();
  std::string cause() const;  // the cause given to Release
  // Has `begun` called by the first Enter. Requires that no Enter has happened yet.
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
