// The options of attention on the scores that a warp of flash has in registers: soft cap, bias, hidden keys and dropped
// probabilities. Which keys are seen and which probabilities are kept is found once per tile, by whole rows, and passes
// through shared memory as bits.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_walk.cuh"

namespace weft::cuda {

inline constexpr double kLog2E = 1.4426950408889634;

// Calls fn(m, half, n, e) for each element of a fragment c[M][N][4], whose element is [m][n][2 * half + e].
template <int M, int N, class Fn>
__device__ __forceinline__ void ForFragment(Fn&& fn) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) fn(m, half, n, e);
}

// tanh with an absolute error of 2^-21 for scores of 16-bit operands, and full precision for those of f32.
template <class T>
__device__ __forceinline__ float CapTanh(float x) {
  if constexpr (std::is_same_v<T, float>)
    return tanhf(x);
  else
    return 1 - __fdividef(2.0f, 1 + Exp2(x * float(2 * kLog2E)));
}

// The scores of one warp: kQueries queries and kKeys keys. kTransposed: the rows of fragments are keys.
template <class Warp, int kQueries, int kKeys, bool kTransposed>
class RuledScores {
 public:
  static constexpr int M = Warp::M, N = Warp::Blocks(kTransposed ? kQueries : kKeys);
  static constexpr int kWords = (kKeys + 31) / 32;  // of 32 keys, per query
  static constexpr size_t kBytes = 2 * size_t(kQueries) * kWords * sizeof(uint32_t);
  static_assert(!kTransposed || kWords == 1);
  static_assert(kKeys % 8 == 0);
  using Float = typename Warp::Float;
  using Scores = float[M][N][4];

  // `memory` is kBytes of shared memory of this warp.
  __device__ __forceinline__ RuledScores(const SdpaRules& rules, double scale, int b, int h, void* memory)
      : rules_(rules),
        seen_(static_cast<uint32_t*>(memory)),
        kept_(seen_ + kQueries * kWords),
        scale_(float(scale)),
        at_{b, h, 0, 0} {}

  // Scores in registers are products of queries and keys, or, if an option changes them, scores in natural units.
  __device__ __forceinline__ bool changes() const { return rules_.softcap > 0 || rules_.bias.data; }
  __device__ __forceinline__ float natural() const { return changes() ? 1 : scale_; }
  __device__ __forceinline__ float log2_unit() const { return natural() * float(kLog2E); }

  // Moves to the queries from `query` of head h on and the keys from `key` on. `by_position` and `by_segment`: it is
  // known that positions and segments hide nothing. Returns whether any key is seen. All lanes must call it.
  __device__ __forceinline__ bool MoveTo(int h, int query, int key, int64_t shift, bool by_position, bool by_segment) {
    at_.h = h, at_.i = query, at_.j = key, hides_ = false;
    if (by_position && by_segment && !rules_.mask.data) {
      if (rules_.dropout.step) FindKept();
      return true;
    }
    uint32_t keys[kWords];
    bool some = false;  // keys that the mask hides from all queries
#pragma unroll
    for (int w = 0; w < kWords; w++) {
      int j = key + w * 32 + Lane();
      bool hidden = rules_.mask.data && rules_.mask.t == 0 && j < rules_.keys &&
                    !rules_.mask.template At<const uint8_t>({at_.b, h, 0, j});
      keys[w] = ~__ballot_sync(~0u, hidden), some |= keys[w] != ~0u;
    }
    bool by_element = !by_segment || (rules_.mask.data && rules_.mask.t != 0);
    if (by_position && !some && !by_element) {
      if (rules_.dropout.step) FindKept();
      return true;
    }
    bool any = FindSeen(keys, shift, by_element);
    if (any && rules_.dropout.step) FindKept();
    return any;
  }

  // Turns products into the scores that natural() is the unit of.
  __device__ __forceinline__ void Change(Scores& s) const {
    if (rules_.softcap > 0) {
      float cap = float(rules_.softcap), inverse = scale_ / cap;
      ForFragment<M, N>([&](int m, int half, int n, int e) {
        float& x = s[m][n][2 * half + e];
        x = cap * CapTanh<Float>(x * inverse);
      });
    }
    AddBias(s);
  }
  // Sets the scores of keys that a query does not see to -inf.
  __device__ __forceinline__ void Hide(Scores& s) const {
    if (!hides_) return;
    ForFragment<M, N>([&](int m, int half, int n, int e) {
      if (!Has(seen_, m, half, n, e)) s[m][n][2 * half + e] = -INFINITY;
    });
  }
  // Drops probabilities and scales the others.
  __device__ __forceinline__ void Drop(Scores& p) const {
    if (!rules_.dropout.step) return;
    float kept = float(rules_.dropout.kept);
    ForFragment<M, N>([&](int m, int half, int n, int e) {
      float& x = p[m][n][2 * half + e];
      x = Has(kept_, m, half, n, e) ? x * kept : 0;
    });
  }

  // Turns products p into probabilities before dropout, and ds from the cotangents of the probabilities after dropout
  // into those of the products. lse(m, half, n, e) is in units of log 2.
  template <class Lse, class Delta>
  __device__ __forceinline__ void Differentiate(Scores& p, Scores& ds, Lse&& lse, Delta&& delta) const {
    Drop(ds);
    ForFragment<M, N>([&](int m, int half, int n, int e) { ds[m][n][2 * half + e] -= delta(m, half, n, e); });
    if (rules_.softcap > 0) {
      float cap = float(rules_.softcap), inverse = scale_ / cap;
      ForFragment<M, N>([&](int m, int half, int n, int e) {
        float &x = p[m][n][2 * half + e], &d = ds[m][n][2 * half + e], t = CapTanh<Float>(x * inverse);
        x = cap * t, d *= 1 - t * t;
      });
    }
    AddBias(p);
    float unit = log2_unit();
    ForFragment<M, N>([&](int m, int half, int n, int e) {
      float &x = p[m][n][2 * half + e], &d = ds[m][n][2 * half + e];
      x = Exp2(x * unit - lse(m, half, n, e));
      if (hides_ && !Has(seen_, m, half, n, e)) x = 0;
      d *= x;
    });
  }

 private:
  // Finds which keys are seen. keys[w] are those that the mask does not hide from all queries; `by_element`: segments
  // or the mask tell queries apart. Returns whether any is.
  __device__ __forceinline__ bool FindSeen(const uint32_t (&keys)[kWords], int64_t shift, bool by_element) {
    bool any = false, all = true;
#pragma unroll
    for (int first = 0; first < kQueries; first += 32) {
      int row = first + Lane(), i = at_.i + row;
      bool valid = row < kQueries && i < rules_.queries;
      IndexRange range = valid ? rules_.KeysAt(at_.b, i + shift) : IndexRange{0, 0};
      uint32_t word[kWords];
#pragma unroll
      for (int w = 0; w < kWords; w++) word[w] = BitsOf(range, at_.j + w * 32) & keys[w];
      if (by_element && rules_.mask.data && rules_.mask.t != 0)
        SeeElements(first, word);
      else if (by_element)
        SeeSegments(first, word);
#pragma unroll
      for (int w = 0; w < kWords; w++) {
        any |= word[w] != 0, all &= !valid || (word[w] | ~kValid) == ~0u;
        if (row < kQueries) seen_[row * kWords + w] = word[w];
      }
    }
    hides_ = !__all_sync(~0u, all);
    any = __any_sync(~0u, any);
    __syncwarp();
    return any;
  }
  // Clears the bits of keys that mask or segments hide. The lanes read a row together.
  __device__ __forceinline__ void SeeElements(int first, uint32_t (&word)[kWords]) const {
    int rows = min(min(32, kQueries - first), rules_.queries - at_.i - first);
#pragma unroll 4
    for (int row = 0; row < rows; row++)
#pragma unroll
      for (int w = 0; w < kWords; w++) {
        int j = at_.j + w * 32 + Lane();
        uint32_t seen = __ballot_sync(~0u, j < rules_.keys && rules_.Sees({at_.b, at_.h, at_.i + first + row, j}));
        if (Lane() == row) word[w] &= seen;
      }
  }
  // Clears the bits of keys that segments hide. Neighbours mostly have one segment, so a word of keys takes few rounds:
  // one for each segment in it.
  __device__ __forceinline__ void SeeSegments(int first, uint32_t (&word)[kWords]) const {
    int row = first + Lane(), i = at_.i + row;
    const int64_t* of_queries = rules_.query_segments + at_.b * rules_.query_segments_step;
    const int64_t* of_keys = rules_.key_segments + at_.b * rules_.key_segments_step;
    int64_t own = row < kQueries && i < rules_.queries ? of_queries[i] : -1;
#pragma unroll
    for (int w = 0; w < kWords; w++) {
      int j = at_.j + w * 32 + Lane();
      int64_t of_key = j < rules_.keys ? of_keys[j] : -1;
      uint32_t seen = 0;
      for (uint32_t left = __ballot_sync(~0u, of_key >= 0); left != 0;) {
        int64_t segment = __shfl_sync(~0u, of_key, __ffs(int(left)) - 1);
        uint32_t same = __ballot_sync(~0u, of_key == segment);
        if (own == segment) seen = same;
        left &= ~same;
      }
      word[w] &= seen;
    }
  }
  // Finds which probabilities are kept. A lane has eight keys of a query at a time.
  __device__ __forceinline__ void FindKept() {
    auto* bytes = reinterpret_cast<uint8_t*>(kept_);
#pragma unroll 1
    for (int x = Lane(); x < kQueries * kKeys / 8; x += 32) {
      int row = x / (kKeys / 8), eight = x % (kKeys / 8);
      bytes[row * kWords * 4 + eight] =
          uint8_t(rules_.dropout.KeepsEight({at_.b, at_.h, at_.i + row, at_.j + eight * 8}));
    }
    __syncwarp();
  }

  __device__ __forceinline__ void AddBias(Scores& s) const {
    if (!rules_.bias.data) return;
    float factor = rules_.softcap > 0 ? 1 : scale_;
    ForFragment<M, N>([&](int m, int half, int n, int e) {
      // Rows and columns beyond the end repeat the last one. Nothing reads their scores.
      int i =
          min(at_.i + (kTransposed ? Warp::FirstColumn() + Warp::Column(n, e) : Warp::FirstRow() + Warp::Row(m, half)),
              rules_.queries - 1);
      int j =
          min(at_.j + (kTransposed ? Warp::FirstRow() + Warp::Row(m, half) : Warp::FirstColumn() + Warp::Column(n, e)),
              rules_.keys - 1);
      float& x = s[m][n][2 * half + e];
      x = x * factor + Widen(rules_.bias.template At<const Float>({at_.b, at_.h, i, j}));
    });
  }

  // Returns whether the bit of an element is set.
  static __device__ __forceinline__ bool Has(const uint32_t* bits, int m, int half, int n, int e) {
    int column = Warp::Column(n, e), row = Warp::Row(m, half);
    if constexpr (kTransposed)
      return bits[Warp::FirstColumn() + column] >> Warp::FirstRow() & (1u << row);
    else
      return bits[(Warp::FirstRow() + row) * kWords + column / 32] >> Warp::FirstColumn() & (1u << column % 32);
  }
  // Returns the bits of a range among the 32 indices from `first` on.
  static __device__ __forceinline__ uint32_t BitsOf(IndexRange range, int first) {
    auto below = [&](int end) {
      int n = min(max(end - first, 0), 32);
      return n == 32 ? ~0u : (1u << n) - 1;
    };
    return below(range.end) & ~below(range.begin);
  }
  static constexpr uint32_t kValid = kKeys < 32 ? (1u << kKeys % 32) - 1 : ~0u;

  const SdpaRules& rules_;
  uint32_t *seen_, *kept_;  // [kQueries, kWords]
  float scale_;
  ScorePlace at_;
  bool hides_ = false;
};

// A warp's scores under Rules. Ruled is its RuledScores; without options, only the unit of scores is left of that.
template <class Ruled, class Rules>
struct RulesOfWarp : Ruled {
  static constexpr bool kRuled = true;
  __device__ __forceinline__ RulesOfWarp(const Rules& rules, double scale, int b, int h, void* memory)
      : Ruled(rules.scores, scale, b, h, memory) {}
  template <class Walk>
  __device__ __forceinline__ bool MoveTo(const Walk& walk, const WalkStep& step, int h, int query, int key) {
    return Ruled::MoveTo(h, query, key, walk.shift, step.by_position, step.by_segment);
  }
};
template <class Ruled>
struct RulesOfWarp<Ruled, NoRules> {
  static constexpr bool kRuled = false;
  double scale;

  __device__ __forceinline__ RulesOfWarp(const NoRules&, double of_scores, int, int, void*) : scale(of_scores) {}
  __device__ __forceinline__ float natural() const { return float(scale); }
  __device__ __forceinline__ float log2_unit() const { return float(scale * kLog2E); }
  template <class Scores>
  __device__ __forceinline__ void Drop(Scores&) const {}
  template <class Walk>
  __device__ __forceinline__ bool MoveTo(const Walk&, const WalkStep&, int, int, int) const {
    return true;
  }
};

}  // namespace weft::cuda
