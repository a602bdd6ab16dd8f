// CallRecorder: the last collectives of one rank over all its groups. The error that ends a job lists them, and other
// ranks compare them with their own.
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
  int group = 0;          // index of the group in the recorder, equal on all ranks of the group
  uint64_t sequence = 0;  // per group; point-to-point calls are numbered separately
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
// Returns the record of a call that begins now.
CallRecord RecordOf(int group, uint64_t sequence, const Collective& call);

struct RecordedGroup {
  std::string name;
  std::vector<int> ranks;  // global
};

// Thread-safe. Records are kept in a ring of fixed size, so recording normally allocates nothing. A call that is still
// running when the ring reuses its slot, such as one of a slow checkpoint, is kept separately until it ends. Calls of a
// replay are not recorded one by one; the source given to set_replays lists them.
class CallRecorder {
 public:
  explicit CallRecorder(size_t capacity = 256) : ring_(capacity) { open_.reserve(16); }

  int AddGroup(std::string name, std::vector<int> ranks = {});  // returns the index to record with
  // Returns the ticket that Finish takes to mark the call as done.
  uint64_t Begin(int group, uint64_t sequence, const Collective& call);
  void Finish(uint64_t ticket);
  // Lists the calls of replays that a device has begun, oldest first. It is called from any thread. A null source means
  // that there are no replays.
  using Source = std::function<std::vector<CallRecord>()>;
  void set_replays(Source source);

  std::vector<RecordedGroup> Groups() const;
  // Returns the last `n` calls in the order in which they were issued. Older calls that are not done precede them.
  std::vector<CallRecord> Last(size_t n) const;
  std::string Describe(
      size_t n) const;  // one line per record: `#57 all_reduce f32 x 1000 on "dp" at x.cc:61, 2.1 s ago, done`

 private:
  mutable std::mutex mutex_;
  Source replays_;
  std::vector<RecordedGroup> groups_;
  std::vector<CallRecord> ring_;
  std::vector<std::pair<uint64_t, CallRecord>> open_;  // by ticket; not done, and no longer in the ring
  uint64_t next_ = 0;
};

}  // namespace weft
