#include "weft/dist/group/local/combine.h"

#include <fmt/format.h>

#include <numeric>

#include "absl/container/inlined_vector.h"
#include "weft/core/base/error.h"
#include "weft/dist/group/local/elements.h"
#include "weft/dist/group/reduce.h"

namespace weft {
namespace {

using local::At;
using local::Copy;
using Op = CollectiveOp;

// Reduces the ranks' inputs from element `first` on.
void Reduce(const Collective& call, int size, CallOfRank calls, int64_t first) {
  absl::InlinedVector<const void*, 16> inputs;
  for (int r = 0; r < size; r++) inputs.push_back(At(calls(r).in, first, call.dtype));
  ReduceInRankOrder(inputs, call.out, call.count, call.dtype, call.reduce);
}

// Returns the number of elements that a rank's call has for rank `to`.
int64_t Given(const Collective& call, int to) {
  return call.op == Op::kAllToAllV ? call.send_counts[size_t(to)] : call.count;
}

// Joins pieces of uneven size, each from the place where rank r's input has the piece for `rank`.
void JoinUneven(const Collective& call, int rank, int size, CallOfRank calls) {
  int64_t offset = 0;
  for (int r = 0; r < size; r++) {
    const Collective& peer = calls(r);
    int64_t skip = 0;
    if (call.op == Op::kAllToAllV)
      skip = std::accumulate(peer.send_counts.begin(), peer.send_counts.begin() + rank, int64_t{0});
    Copy(At(call.out, offset, call.dtype), At(peer.in, skip, call.dtype), call.recv_counts[size_t(r)], call.dtype);
    offset += call.recv_counts[size_t(r)];
  }
}

// Checks the pieces of all ranks, because one that concerns two ranks must end the call on all.
void CheckCounts(int size, CallOfRank calls) {
  for (int to = 0; to < size; to++)
    for (int from = 0; from < size; from++) {
      int64_t expected = calls(to).recv_counts[size_t(from)], given = Given(calls(from), to);
      WEFT_CHECK(expected == given,
                 fmt::format("rank {} expects {} elements of rank {}, which has {} for it", to, expected, from, given));
    }
}

}  // namespace

void KeepCounts(Collective& call, std::vector<int64_t>& kept) {
  size_t sends = call.send_counts.size();
  kept.assign(call.send_counts.begin(), call.send_counts.end());
  kept.insert(kept.end(), call.recv_counts.begin(), call.recv_counts.end());
  call.send_counts = std::span(kept).first(sends);
  call.recv_counts = std::span(kept).subspan(sends);
}

void CheckCalls(const Collective& call, int rank, int size, CallOfRank calls) {
  const bool own_counts = Traits(call.op).own_counts;
  for (int r = 0; r < size; r++) {
    const Collective& other = calls(r);
    bool same = other.op == call.op && other.dtype == call.dtype && other.reduce == call.reduce &&
                other.peer == call.peer && (own_counts || other.count == call.count);
    WEFT_CHECK(same,
               fmt::format("rank {} calls {} here, but rank {} calls {}", rank, ToString(call), r, ToString(other)));
  }
  if (own_counts) CheckCounts(size, calls);
}

void Combine(const Collective& call, int rank, int size, CallOfRank calls) {
  switch (call.op) {
    case Op::kAllReduce:
      return Reduce(call, size, calls, 0);
    case Op::kReduceScatter:
      return Reduce(call, size, calls, rank * call.count);
    case Op::kReduce:
      if (rank == call.peer) Reduce(call, size, calls, 0);
      return;
    case Op::kAllGather:
      for (int r = 0; r < size; r++)
        Copy(At(call.out, r * call.count, call.dtype), calls(r).in, call.count, call.dtype);
      return;
    case Op::kAllToAll:
      for (int r = 0; r < size; r++)
        Copy(At(call.out, r * call.count, call.dtype), At(calls(r).in, rank * call.count, call.dtype), call.count,
             call.dtype);
      return;
    case Op::kBroadcast:
      if (rank != call.peer) Copy(call.out, calls(call.peer).in, call.count, call.dtype);
      return;
    case Op::kShift:
      return Copy(call.out, calls((rank - call.peer + size) % size).in, call.count, call.dtype);
    case Op::kAllGatherV:
    case Op::kAllToAllV:
      return JoinUneven(call, rank, size, calls);
    case Op::kBarrier:
    case Op::kSend:
    case Op::kRecv:
      return;
  }
}

}  // namespace weft
