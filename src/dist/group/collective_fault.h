// CollectiveFault: what a rank does in the place of one of its collectives, for tests of how a job then ends, asked for
// by WEFT_FAULT. Ranks without the variable, that is all in use, have none and look for none.
//
//   WEFT_FAULT=collective:skip:57   the 57th collective of this rank, over all its groups, is not made
//
// | action       | at that collective                                                             |
// | kill, stop   | the process gets SIGKILL or SIGSTOP                                            |
// | hang         | an hour of sleep before it                                                     |
// | throw        | an error of this rank's own                                                    |
// | skip         | it is left out                                                                 |
// | shape, dtype | it is made with one element less, or of another type of the same size          |
// | order        | the group's first call unlike it is made in its place; it and those like it    |
// |              | that come before that one are not made: the ranks have parted by then          |
//
// Calls that a replay makes are counted too: those above "skip" happen before the replay, the others do nothing to it.
//
// A line on stderr says when and where: "fault: rank 2 pid 123 at NANOSECONDS since 1970: skip all_reduce #57 on dp".
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weft/dist/group/process_group.h"

namespace weft {

class CollectiveFault {
 public:
  // Null where WEFT_FAULT asks for none. Throws Error for an action that there is not.
  static std::shared_ptr<CollectiveFault> FromEnvironment();

  CollectiveFault(std::string action, int nth);
  // A group's call filter; of sends and receives it changes none. Thread-safe.
  bool Change(const ProcessGroup& group, Collective& call);

 private:
  struct Held {
    const ProcessGroup* group;
    CollectiveOp op;
    DType dtype;
    int64_t count;
  };
  bool Begin(const ProcessGroup& group, Collective& call);

  std::string action_;
  int nth_;
  std::mutex mutex_;
  int made_ = 0;
  std::optional<Held> held_;  // by order
};

}  // namespace weft
