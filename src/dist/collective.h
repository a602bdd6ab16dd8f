// Collective: one communication call as a value: what a group runs, records, counts and names in an error.
#pragma once
#include <chrono>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/placement.h"

namespace weft {

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kShift,  // in a ring: out is the in of the rank `peer` places before this one
  kAllGatherV,
  kAllToAllV,
  kBarrier,
  kSend,
  kRecv
};
inline constexpr int kNumCollectiveOps = 11;
const char* Name(CollectiveOp op);  // "all_reduce"
inline bool IsPointToPoint(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }
inline bool IsReduction(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter;
}

struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  const void* in = nullptr;
  void* out = nullptr;
  int64_t count = 0;  // elements: of one rank's piece (all_gather, reduce_scatter, all_to_all), else of the whole
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int peer = 0;                            // root, source or destination, as a rank of the group; a shift's distance
  std::span<const int64_t> send_counts{};  // all_to_all_v: elements for each rank
  std::span<const int64_t> recv_counts{};  // all_gather_v, all_to_all_v: elements from each rank
  std::chrono::milliseconds timeout{0};    // 0: the group's
  std::string_view site{};                 // who asked for it, e.g. "trainer.cc:61"; copied when the call is recorded
};

// The text of a call site by value, cut when longer: taking one costs no allocation.
class SiteText {
 public:
  SiteText() = default;
  SiteText(std::string_view site);
  explicit SiteText(const std::source_location& loc);
  operator std::string_view() const { return {text_, size_}; }

 private:
  char text_[48] = {};
  size_t size_ = 0;
};

// The bytes that this rank hands over in a group of `size`.
int64_t InputBytes(const Collective& call, int size);
// "all_reduce f32 x 1000 sum"
std::string ToString(const Collective& call);

}  // namespace weft
