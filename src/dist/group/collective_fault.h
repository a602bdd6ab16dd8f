// CollectiveFault: injects a fault into one collective of a rank, for tests of how a job then ends. WEFT_FAULT requests
// it. Ranks without the variable have no CollectiveFault, so their calls are not filtered.
//
//   WEFT_FAULT=collective:skip:57   the 57th collective of this rank, over all its groups, is not made
//
// | action       | effect at that collective                                                      |
// | kill, stop   | the process gets SIGKILL or SIGSTOP                                            |
// | hang         | the rank sleeps for an hour before it                                          |
// | throw        | this rank throws an error                                                      |
// | skip         | it is not made                                                                 |
// | shape, dtype | it is made with one element less, or with another type of the same size        |
// | order        | the group's next different call is made instead; this call and similar ones    |
// |              | before that one are dropped, because the ranks are out of step by then         |
//
//   WEFT_FAULT=collective:delay:300   every collective of this rank waits for a random time of up to 300 us on the
//                                     host; in a replay it also waits on the device, before it and after it
//
// Calls of a replay are counted too. The actions above "skip" happen before the replay; the others have no effect on
// it.
//
// A line on stderr reports the rank and the time: "fault: rank 2 pid 123 at NANOSECONDS since 1970: skip all_reduce #57
// on dp".
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "weft/dist/group/process_group.h"

namespace weft {

class CollectiveFault {
 public:
  // Returns null if WEFT_FAULT requests no fault here. Throws Error for an unknown action.
  static std::shared_ptr<CollectiveFault> FromEnvironment();

  CollectiveFault(std::string action, int nth);
  // The longest delay of a call on the device; 0: none.
  std::chrono::microseconds device_delay() const;
  // A group's call filter. It does not change or count sends and receives. Thread-safe.
  bool Change(const ProcessGroup& group, Collective& call);

 private:
  struct Held {
    const ProcessGroup* group;
    CollectiveOp op;
    DType dtype;
    int64_t count;
  };
  void Pause();
  bool Begin(const ProcessGroup& group, Collective& call);

  std::string action_;
  int nth_;
  std::mutex mutex_;
  int made_ = 0;
  std::mt19937_64 draw_{std::random_device()()};  // of delays
  std::optional<Held> held_;                      // set by action "order"
};

}  // namespace weft
