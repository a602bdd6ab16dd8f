// The steps of a block of flash: which tiles of keys a tile of queries walks, and which tiles of queries a tile of keys
// walks. A block has the same walk in all threads.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_flash_rules.cuh"
#include "weft/kernels/cuda/attention/sdpa_tile.cuh"

namespace weft::cuda {

// Returns whether a query of one range may have the segment of a key of the other. The segment -1 meets nothing.
__device__ __forceinline__ bool Meet(const SegmentRange& a, const SegmentRange& b) {
  return max(a.low, b.low) <= min(a.high, b.high) && min(a.high, b.high) >= 0;
}
// Returns whether every query sees every key.
__device__ __forceinline__ bool AreOneSegment(const SegmentRange& a, const SegmentRange& b) {
  return a.low == a.high && b.low == b.high && a.low == b.low && a.low >= 0;
}
// Returns the range of `rows` tokens from `first` on. Requires that first is a multiple of kSegmentTile.
__device__ __forceinline__ SegmentRange RangeOf(const SegmentRange* of_sequence, int first, int rows) {
  SegmentRange range = of_sequence[first / kSegmentTile];
  for (int i = kSegmentTile; i < rows; i += kSegmentTile) {
    SegmentRange next = of_sequence[(first + i) / kSegmentTile];
    range = {min(range.low, next.low), max(range.high, next.high)};
  }
  return range;
}

// A step of a walk: tile number `at` of the other side, for a query head.
struct WalkStep {
  int at, head = 0;
  // It is known that positions hide nothing in this step, and that segments hide nothing.
  bool by_position = false, by_segment = false;
};

// Finds the steps that meet a block's segments, 32 at a time.
struct StepFinder {
  const SegmentRange* of_others = nullptr;  // of the other side's tiles in this sequence; null: all meet
  SegmentRange own{};
  int chunk = -1;
  uint32_t meets = 0, by_position = 0, by_segment = 0;  // steps chunk * 32 + bit

  // Returns the first step from `at` on that meets, or one at `end`. A step has kTokens tokens, and sees(step) returns
  // whether positions hide nothing in it. All lanes of the warp must call it.
  template <int kTokens, class Fn>
  __device__ __forceinline__ WalkStep From(int at, int end, int head, Fn&& sees) {
    static_assert(kSegmentTile % kTokens == 0);
    while (at < end) {
      if (at / 32 != chunk) {
        chunk = at / 32;
        int step = chunk * 32 + Lane();
        SegmentRange other = of_others && step < end ? of_others[step * kTokens / kSegmentTile] : own;
        meets = __ballot_sync(~0u, step < end && (!of_others || Meet(own, other)));
        by_segment = __ballot_sync(~0u, !of_others || AreOneSegment(own, other));
        by_position = __ballot_sync(~0u, sees(step));
      }
      if (uint32_t left = meets & ~0u << at % 32) {
        int bit = __ffs(int(left)) - 1;
        return {chunk * 32 + bit, head, bool(by_position >> bit & 1), bool(by_segment >> bit & 1)};
      }
      at = chunk * 32 + 32;
    }
    return {end, head};
  }
};

// The walk of queries [first, first + rows) of a head over steps of kKeys keys.
template <class Rules, int kKeys>
struct KeyWalk {
  int end, fewest;  // steps; the keys that the first query sees, which are the fewest

  __device__ __forceinline__ KeyWalk(const SdpaSizes& z, const Rules&, int, int first, int rows)
      : end((z.Visible(first + rows - 1) + kKeys - 1) / kKeys), fewest(z.Visible(first)) {}
  __device__ __forceinline__ WalkStep First() { return {0}; }
  __device__ __forceinline__ WalkStep Next(const WalkStep& step) { return {step.at + 1}; }
  __device__ __forceinline__ bool Has(const WalkStep& step) const { return step.at < end; }
};

template <int kKeys>
struct KeyWalk<FlashRules, kKeys> {
  int64_t shift;   // query i stands at key i + shift
  int begin, end;  // steps
  IndexRange all;  // the keys that all queries see by their positions
  StepFinder finder;

  __device__ __forceinline__ KeyWalk(const SdpaSizes&, const FlashRules& rules, int b, int first, int rows)
      : shift(rules.scores.Shift(b)) {
    IndexRange least = rules.scores.KeysAt(b, first + shift), most = rules.scores.KeysAt(b, first + rows - 1 + shift);
    all = {most.begin, least.end};
    begin = least.begin / kKeys, end = (most.end + kKeys - 1) / kKeys;
    if (rules.of_keys) {
      finder.of_others = rules.of_keys + int64_t(b) * rules.key_tiles;
      finder.own = RangeOf(rules.of_queries + int64_t(b) * rules.query_tiles, first, rows);
    }
  }
  __device__ __forceinline__ WalkStep First() { return From(begin); }
  __device__ __forceinline__ WalkStep Next(const WalkStep& step) { return From(step.at + 1); }
  __device__ __forceinline__ bool Has(const WalkStep& step) const { return step.at < end; }

 private:
  __device__ __forceinline__ WalkStep From(int at) {
    return finder.From<kKeys>(at, end, 0, [&](int i) { return i * kKeys >= all.begin && (i + 1) * kKeys <= all.end; });
  }
};

// The walk of keys [first, first + rows) of KV head g: the steps of one query head after those of the other.
template <class Rules, int kQueries>
struct QueryWalk {
  int first_head, end_head, begin, end;  // heads; steps of each

  __device__ __forceinline__ QueryWalk(const SdpaSizes& z, const Rules&, int, int g, int first, int)
      : first_head(z.FirstHead(g)),
        end_head(z.EndHead(g)),
        begin(z.FirstQuery(first) / kQueries),
        end((z.T + kQueries - 1) / kQueries) {
    if (begin >= end) end_head = first_head;
  }
  __device__ __forceinline__ WalkStep First() { return {begin, first_head}; }
  __device__ __forceinline__ WalkStep Next(const WalkStep& step) {
    return step.at + 1 < end ? WalkStep{step.at + 1, step.head} : WalkStep{begin, step.head + 1};
  }
  __device__ __forceinline__ bool Has(const WalkStep& step) const { return step.head < end_head; }
};

template <int kQueries>
struct QueryWalk<FlashRules, kQueries> {
  int first_head, end_head, begin, end;
  int64_t shift;
  IndexRange all;  // the queries that see all keys by their positions
  StepFinder finder;

  __device__ __forceinline__ QueryWalk(const SdpaSizes& z, const FlashRules& rules, int b, int g, int first, int rows)
      : first_head(z.FirstHead(g)), end_head(z.EndHead(g)), shift(rules.scores.Shift(b)) {
    int keys = max(0, min(rows, rules.scores.Length(b) - first));  // the others are seen by no query
    IndexRange least = rules.scores.Queries(b, first), most = rules.scores.Queries(b, first + max(keys, 1) - 1);
    all = keys < rows ? IndexRange{0, 0} : IndexRange{most.begin, least.end};
    begin = least.begin / kQueries, end = keys == 0 ? begin : (most.end + kQueries - 1) / kQueries;
    if (rules.of_queries) {
      finder.of_others = rules.of_queries + int64_t(b) * rules.query_tiles;
      finder.own = RangeOf(rules.of_keys + int64_t(b) * rules.key_tiles, first, rows);
    }
  }
  __device__ __forceinline__ WalkStep First() {
    WalkStep step = From(begin, first_head);
    if (step.at >= end) end_head = first_head;  // no step in any head
    return step;
  }
  __device__ __forceinline__ WalkStep Next(const WalkStep& step) {
    WalkStep next = From(step.at + 1, step.head);
    return next.at < end ? next : From(begin, step.head + 1);
  }
  __device__ __forceinline__ bool Has(const WalkStep& step) const { return step.head < end_head; }

 private:
  __device__ __forceinline__ WalkStep From(int at, int head) {
    return finder.From<kQueries>(at, end, head,
                                 [&](int i) { return i * kQueries >= all.begin && (i + 1) * kQueries <= all.end; });
  }
};

}  // namespace weft::cuda
