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
// Returns the first step from `step` on that meets, or `end`. All lanes of the warp must call it.
template <class Fn>
__device__ __forceinline__ int FirstStep(int step, int end, Fn&& meets) {
  for (; step < end; step += 32) {
    uint32_t found = __ballot_sync(~0u, step + Lane() < end && meets(step + Lane()));
    if (found) return step + __ffs(int(found)) - 1;
  }
  return end;
}

// The walk of queries [first, first + rows) over steps of kKeys keys.
template <class Rules, int kKeys>
struct KeyWalk {
  static constexpr int begin = 0;
  int end, fewest;  // steps; the keys that the first query sees, which are the fewest

  __device__ __forceinline__ KeyWalk(const SdpaSizes& z, const Rules&, int, int first, int rows)
      : end((z.Visible(first + rows - 1) + kKeys - 1) / kKeys), fewest(z.Visible(first)) {}
  __device__ __forceinline__ int Next(int step) const { return step + 1; }
};

template <int kKeys>
struct KeyWalk<FlashRules, kKeys> {
  static_assert(kSegmentTile % kKeys == 0);
  const SegmentRange* of_keys;  // of this sequence, or null
  SegmentRange own{};           // of the queries
  int64_t shift;                // query i stands at key i + shift
  int begin, end;               // steps
  IndexRange all;               // the keys that all queries see by their positions

  __device__ __forceinline__ KeyWalk(const SdpaSizes&, const FlashRules& rules, int b, int first, int rows)
      : of_keys(nullptr), shift(rules.scores.Shift(b)) {
    IndexRange least = rules.scores.KeysAt(b, first + shift), most = rules.scores.KeysAt(b, first + rows - 1 + shift);
    all = {most.begin, least.end};
    begin = least.begin / kKeys, end = (most.end + kKeys - 1) / kKeys;
    if (rules.of_keys) {
      of_keys = rules.of_keys + int64_t(b) * rules.key_tiles;
      own = RangeOf(rules.of_queries + int64_t(b) * rules.query_tiles, first, rows);
    }
    begin = From(begin);
  }
  __device__ __forceinline__ int Next(int step) const { return From(step + 1); }
  // Returns whether every query sees every key of the step by its position, and by its segment.
  __device__ __forceinline__ bool SeesByPosition(int step) const {
    return step * kKeys >= all.begin && (step + 1) * kKeys <= all.end;
  }
  __device__ __forceinline__ bool SeesBySegment(int step) const {
    return !of_keys || AreOneSegment(own, of_keys[step * kKeys / kSegmentTile]);
  }

 private:
  __device__ __forceinline__ int From(int step) const {
    if (!of_keys) return step;
    return FirstStep(step, end, [&](int at) { return Meet(own, of_keys[at * kKeys / kSegmentTile]); });
  }
};

// The steps of kQueries queries for a tile of keys: those of one query head after those of the other.
template <int kQueries>
struct QuerySteps {
  int first_head, first_step, steps_a_head, begin = 0, end;

  __device__ __forceinline__ int HeadOf(int step) const { return first_head + step / steps_a_head; }
  __device__ __forceinline__ int FirstQueryOf(int step) const { return (first_step + step % steps_a_head) * kQueries; }
};

// The walk of keys [first, first + rows) of KV head g.
template <class Rules, int kQueries>
struct QueryWalk : QuerySteps<kQueries> {
  __device__ __forceinline__ QueryWalk(const SdpaSizes& z, const Rules&, int, int g, int first, int) {
    this->first_head = z.FirstHead(g), this->first_step = z.FirstQuery(first) / kQueries;
    this->steps_a_head = (z.T + kQueries - 1) / kQueries - this->first_step;
    this->end = (z.EndHead(g) - this->first_head) * this->steps_a_head;
  }
  __device__ __forceinline__ int Next(int step) const { return step + 1; }
};

template <int kQueries>
struct QueryWalk<FlashRules, kQueries> : QuerySteps<kQueries> {
  static_assert(kSegmentTile % kQueries == 0);
  const SegmentRange* of_queries;  // of this sequence, or null
  SegmentRange own{};              // of the keys
  int64_t shift;
  IndexRange all;  // the queries that see all keys by their positions

  __device__ __forceinline__ QueryWalk(const SdpaSizes& z, const FlashRules& rules, int b, int g, int first, int rows)
      : of_queries(nullptr), shift(rules.scores.Shift(b)) {
    int keys = max(0, min(rows, rules.scores.Length(b) - first));  // the others are seen by no query
    IndexRange least = rules.scores.Queries(b, first), most = rules.scores.Queries(b, first + max(keys, 1) - 1);
    all = keys < rows ? IndexRange{0, 0} : IndexRange{most.begin, least.end};
    this->first_head = z.FirstHead(g), this->first_step = least.begin / kQueries;
    this->steps_a_head = keys == 0 ? 0 : max(0, (most.end + kQueries - 1) / kQueries - this->first_step);
    this->end = (z.EndHead(g) - this->first_head) * this->steps_a_head;
    if (rules.of_queries) {
      of_queries = rules.of_queries + int64_t(b) * rules.query_tiles;
      own = RangeOf(rules.of_keys + int64_t(b) * rules.key_tiles, first, rows);
    }
    this->begin = From(0);
  }
  __device__ __forceinline__ int Next(int step) const { return From(step + 1); }
  __device__ __forceinline__ bool SeesByPosition(int step) const {
    int query = this->FirstQueryOf(step);
    return query >= all.begin && query + kQueries <= all.end;
  }
  __device__ __forceinline__ bool SeesBySegment(int step) const {
    return !of_queries || AreOneSegment(own, of_queries[this->FirstQueryOf(step) / kSegmentTile]);
  }

 private:
  __device__ __forceinline__ int From(int step) const {
    if (!of_queries) return step;
    return FirstStep(step, this->end,
                     [&](int at) { return Meet(own, of_queries[this->FirstQueryOf(at) / kSegmentTile]); });
  }
};

}  // namespace weft::cuda
