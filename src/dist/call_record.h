// CallRecorder: the last collectives of one rank, over all its groups, for the error that ends a job.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dist/collective.h"

namespace weft {

struct CallRecord {
  int group = 0;          // index of the group's name in the recorder
  uint64_t sequence = 0;  // per group; point-to-point calls count on their own
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  int64_t count = 0;
  SiteText site;
  std::chrono::steady_clock::time_point start{};
  bool done = false;
};

// Thread-safe. Records live in a ring of fixed size, so recording allocates nothing.
class CallRecorder {
 public:
  explicit CallRecorder(size_t capacity = 256) : ring_(capacity) {}

  int AddGroup(std::string name);  // the index to record with
  // Returns the ticket with which Finish marks the call as done.
  uint64_t Begin(int group, uint64_t sequence, const Collective& call);
  void Finish(uint64_t ticket);

  std::vector<CallRecord> Last(size_t n) const;  // oldest first
  std::string Describe(
      size_t n) const;  // one line a record: `#57 all_reduce f32 x 1000 on "dp" at x.cc:61, 2.1 s ago, done`

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> groups_;
  std::vector<CallRecord> ring_;
  uint64_t next_ = 0;
};

}  // namespace weft
