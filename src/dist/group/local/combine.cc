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

}  // namespace

void CheckCalls(const Collective& call, int rank, int size, CallOfRank calls) {
  for (int r = 0; r < size; r++) {
    const Collective& other = calls(r);
    bool same =
        other.op == call.op && other.dtype == call.dtype && other.reduce == call.reduce && other.peer == call.peer;
    if (same && call.op == Op::kAllGatherV)
      same = other.count == call.recv_counts[size_t(r)];
    else if (same && call.op == Op::kAllToAllV)
      same = other.send_counts[size_t(rank)] == call.recv_counts[size_t(r)];
    else if (same)
      same = other.count == call.count;
    WEFT_CHECK(same,
               fmt::format("rank {} calls {} here, but rank {} calls {}", rank, ToString(call), r, ToString(other)));
  }
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
