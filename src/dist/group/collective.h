// Collective: one communication call as a value, which a group runs, records, counts and reports in errors.
#pragma once
#include <chrono>
#include <cstdint>
#include <iterator>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "weft/core/base/dtype.h"
#include "weft/core/base/placement.h"

namespace weft {

// A rank's input: `count` elements, `count` elements per rank, its send_counts, or none.
enum class Handed : uint8_t { kCount, kCountPerRank, kSendCounts, kNothing };

// The collectives, one row each, with the properties that records, counts, checks and errors need. A new collective
// needs a row here, a method of ProcessGroup, a case in OutputBytes, an implementation in local/combine.cc,
// gloo/gloo_collectives.cc and nccl/nccl_calls.cc, and for weft bench cases in bus_bandwidth.cc and collective_case.cc.
// clang-format off
//  Name           text              reduces  peer   hands over     pieces own counts
#define WEFT_COLLECTIVES(X)                                                        \
  X(AllReduce,     "all_reduce",     true,    false, kCount,        false, false)  \
  X(AllGather,     "all_gather",     false,   false, kCount,        true,  false)  \
  X(ReduceScatter, "reduce_scatter", true,    false, kCountPerRank, true,  false)  \
  X(AllToAll,      "all_to_all",     false,   false, kCountPerRank, true,  false)  \
  X(Broadcast,     "broadcast",      false,   true,  kCount,        false, false)  \
  X(Reduce,        "reduce",         true,    true,  kCount,        false, false)  \
  X(Shift,         "shift",          false,   true,  kCount,        false, false)  \
  X(AllGatherV,    "all_gather_v",   false,   false, kCount,        true,  true)   \
  X(AllToAllV,     "all_to_all_v",   false,   false, kSendCounts,   true,  true)   \
  X(Barrier,       "barrier",        false,   false, kNothing,      false, false)  \
  X(Send,          "send",           false,   true,  kCount,        false, false)  \
  X(Recv,          "recv",           false,   true,  kNothing,      false, false)
// clang-format on

enum class CollectiveOp : uint8_t {
#define WEFT_ENUM(Name, ...) k##Name,
  WEFT_COLLECTIVES(WEFT_ENUM)
#undef WEFT_ENUM
};

struct CollectiveTraits {
  const char* name;  // "all_reduce"
  bool reduces;      // takes a ReduceOp
  bool has_peer;     // takes a peer
  Handed handed;
  bool pieces;      // the larger of its tensors is one piece per rank
  bool own_counts;  // counts may differ per rank
};
inline constexpr CollectiveTraits kCollectiveTraits[] = {
#define WEFT_TRAITS(Name, text, reduces, peer, handed, pieces, own_counts) \
  {text, reduces, peer, Handed::handed, pieces, own_counts},
    WEFT_COLLECTIVES(WEFT_TRAITS)
#undef WEFT_TRAITS
};
inline constexpr int kNumCollectiveOps = int(std::size(kCollectiveTraits));
constexpr const CollectiveTraits& Traits(CollectiveOp op) { return kCollectiveTraits[size_t(op)]; }
constexpr const char* Name(CollectiveOp op) { return Traits(op).name; }
inline bool IsPointToPoint(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  const void* in = nullptr;
  void* out = nullptr;
  int64_t count = 0;  // elements of one rank's piece (all_gather, reduce_scatter, all_to_all), otherwise of the whole
  // Where pieces have one count, the whole is [blocks, ranks, count / blocks]; see takes_blocks().
  int64_t blocks = 1;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int peer = 0;  // root, source or destination, as a rank of the group; for a shift, its distance
  std::span<const int64_t> send_counts{};  // all_to_all_v: elements for each rank
  std::span<const int64_t> recv_counts{};  // all_gather_v, all_to_all_v: elements from each rank
  std::chrono::milliseconds timeout{0};    // 0 means the group's timeout
  std::string_view site{};  // the call site, for example "trainer.cc:61"; copied when the call is recorded
};

// The text of a call site by value, truncated to 96 bytes. Making one allocates nothing.
class SiteText {
 public:
  SiteText() = default;
  SiteText(std::string_view site);
  explicit SiteText(const std::source_location& loc);
  // "blocks.3.mlp.down transformer.cc:58"
  SiteText(std::string_view scope, const std::source_location& loc);
  operator std::string_view() const { return {text_, size_}; }

 private:
  void Append(std::string_view part);

  char text_[96] = {};
  size_t size_ = 0;
};

// The bytes of this rank's input in a group of `size` ranks, and of the output of rank `rank`.
int64_t InputBytes(const Collective& call, int size);
int64_t OutputBytes(const Collective& call, int size, int rank);
// The call of one block.
Collective BlockOf(const Collective& call, int64_t block, int size);
// "all_reduce f32 x 1000 sum"
std::string ToString(const Collective& call);

}  // namespace weft
