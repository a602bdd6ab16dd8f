// The bytes that a Gloo group sends and receives for a call, by the formulas in gloo_collectives.cc.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "weft/dist/group/gloo/gloo_group.h"

namespace weft::test {

struct Traffic {
  int64_t sent = 0, received = 0;
};

// Returns the bytes of all segments that `rank` reduces in a large all_reduce.
inline int64_t ReducedSlices(int64_t bytes, int64_t element, int rank, int ranks) {
  int64_t mine = 0, segment = GlooGroup::kSegmentBytes / element;
  for (int64_t left = bytes / element; left > 0; left -= segment) {
    int64_t count = std::min(left, segment);
    mine += (count * (rank + 1) / ranks - count * rank / ranks) * element;
  }
  return mine;
}

inline int64_t CeilLog2(int n) {
  int64_t log = 0;
  while ((1 << log) < n) log++;
  return log;
}

// Returns how often the rank at distance `after` from the root sends in a binomial tree: once in every step after it
// has the data, if there is a receiver.
inline int64_t TreeSends(int after, int ranks) {
  int64_t sends = 0;
  for (int have = 1; have < ranks; have *= 2) sends += after < have && after + have < ranks;
  return sends;
}

// Returns the traffic of a collective with even pieces, to which this rank passes `bytes`. `peer` is as in Collective.
inline Traffic TrafficOf(CollectiveOp op, int64_t bytes, int64_t element, int rank, int ranks, int peer = 0) {
  int64_t n = ranks;
  auto both = [](int64_t b) { return Traffic{b, b}; };
  if (n == 1) return {};
  switch (op) {
    case CollectiveOp::kAllReduce:
      if (bytes <= GlooGroup::kSmallBytes) return both((n - 1) * bytes);
      return both(bytes + (n - 2) * ReducedSlices(bytes, element, rank, ranks));
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
      return both(bytes / n * (n - 1));
    case CollectiveOp::kAllGather:
      return both((n - 1) * bytes);
    case CollectiveOp::kBroadcast:
      return {TreeSends((rank - peer + ranks) % ranks, ranks) * bytes, rank == peer ? 0 : bytes};
    case CollectiveOp::kReduce:
      return rank == peer ? Traffic{0, (n - 1) * bytes} : Traffic{bytes, 0};
    case CollectiveOp::kShift:
      return both(peer ? bytes : 0);
    case CollectiveOp::kBarrier:
      return both(CeilLog2(ranks));
    default:
      ADD_FAILURE() << "no formula for " << Name(op);
      return {};
  }
}

}  // namespace weft::test
