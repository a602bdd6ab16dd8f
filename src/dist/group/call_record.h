// CallRecorder: the last collectives of one rank, over all its groups, for the error that ends a job and for the other
// ranks, who compare them with theirs.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/dist/group/collective.h"

namespace weft {

struct CallRecord {
  int group = 0;          // index of the group in the recorder: the same on all ranks that have it
  uint64_t sequence = 0;  // per group; point-to-point calls count on their own
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int peer = 0;
  int64_t count = 0;
  SiteText site;
  std::chrono::steady_clock::time_point start{};
  bool done = false;
};

// "all_reduce f32 x 1000 sum at trainer.cc:61"
std::string ToString(const CallRecord& record);
// Of a call that begins now.
CallRecord RecordOf(int group, uint64_t sequence, const Collective& call);

struct RecordedGroup {
  std::string name;
  std::vector<int> ranks;  // global
};

// Thread-safe. Records live in a ring of fixed size, so recording allocates nothing. Calls that are not done when the
// ring comes round to them, a slow checkpoint's beside a training that goes on, are kept apart until they are. Calls
// that replays of a recording make are not recorded one by one: their source tells of them.
class CallRecorder {
 public:
  explicit CallRecorder(size_t capacity = 256) : ring_(capacity) { open_.reserve(16); }

  int AddGroup(std::string name, std::vector<int> ranks = {});  // the index to record with
  // Returns the ticket with which Finish marks the call as done.
  uint64_t Begin(int group, uint64_t sequence, const Collective& call);
  void Finish(uint64_t ticket);
  // Where there are records of calls that replays make: those that a device is past or at, oldest first. Called by any
  // thread; null: there are none.
  using Source = std::function<std::vector<CallRecord>()>;
  void set_replays(Source source);

  std::vector<RecordedGroup> Groups() const;
  // By the time when they were issued; older ones that are not done come before the n.
  std::vector<CallRecord> Last(size_t n) const;
  std::string Describe(
      size_t n) const;  // one line a record: `#57 all_reduce f32 x 1000 on "dp" at x.cc:61, 2.1 s ago, done`

 private:
  mutable std::mutex mutex_;
  Source replays_;
  std::vector<RecordedGroup> groups_;
  std::vector<CallRecord> ring_;
  std::vector<std::pair<uint64_t, CallRecord>> open_;  // by ticket: not done, and no longer in the ring
  uint64_t next_ = 0;
};

}  // namespace weft
