// From products of queries and keys to scores, as the options of the op say: which keys a query sees, soft cap and
// bias; and which probabilities are dropped. kernels/cpu/attention/sdpa_scores.h does the same on CPUs.
#pragma once
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/philox.cuh"
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

__device__ __forceinline__ float ExpOf(float x) { return expf(x); }
__device__ __forceinline__ double ExpOf(double x) { return exp(x); }
__device__ __forceinline__ float TanhOf(float x) { return tanhf(x); }
__device__ __forceinline__ double TanhOf(double x) { return tanh(x); }

// A query of a head and a key of its sequence, as local indices.
struct ScorePlace {
  int b, h, i, j;
};
struct IndexRange {
  int begin, end;
};

// A mask, a bias or a bias's gradient: [B, H, T, S], where a dim of global extent 1 stands for all indices and has
// stride 0. Null if the call has none.
struct ScoreOperand {
  void* data = nullptr;
  int64_t b = 0, h = 0, t = 0;

  ScoreOperand() = default;
  explicit ScoreOperand(const TensorView& view);
  template <class T>
  __device__ T& At(const ScorePlace& at) const {
    return static_cast<T*>(data)[at.b * b + at.h * h + at.i * t + at.j];
  }
};

// Dropout of probabilities, which are elements of a global [B, H, T, S] (core/base/rng.h).
struct SdpaDropout {
  const int64_t *step = nullptr, *first_row = nullptr;  // scalars on the device; null: nothing is dropped
  uint64_t key = 0;
  int64_t heads = 0, queries = 0, blocks = 0;  // global heads and queries; Philox blocks of a row of keys
  int64_t first_b = 0, first_h = 0, first_i = 0, first_j = 0;  // global indices of the local elements 0
  uint32_t threshold = 0;
  double kept = 1;  // the factor of probabilities that are kept

  __device__ bool Keeps(const ScorePlace& at) const { return !step || Keeps(Bits(at), int((first_j + at.j) % 8)); }
  // Returns whether it keeps each of 8 keys, of which `at` is the first, in the order of bits. Requires `step`.
  __device__ uint32_t KeepsEight(const ScorePlace& at) const {
    uint32_t kept = 0;
    if ((first_j + at.j) % 8) {  // they lie in two blocks of Philox
      for (int j = 0; j < 8; j++) kept |= uint32_t(Keeps({at.b, at.h, at.i, at.j + j})) << j;
      return kept;
    }
    PhiloxBits bits = Bits(at);
#pragma unroll
    for (int j = 0; j < 8; j++) kept |= uint32_t(Keeps(bits, j)) << j;
    return kept;
  }

 private:
  __device__ PhiloxBits Bits(const ScorePlace& at) const {
    int64_t b = *first_row + first_b + at.b;
    int64_t row = (b * heads + first_h + at.h) * queries + first_i + at.i, column = first_j + at.j;
    return Philox(key, uint64_t(*step), uint64_t(row) * uint64_t(blocks) + uint64_t(column / 8));
  }
  __device__ bool Keeps(const PhiloxBits& bits, int word) const {
    uint32_t pair = word < 4 ? (word < 2 ? bits.lane[0] : bits.lane[1]) : (word < 6 ? bits.lane[2] : bits.lane[3]);
    return (word % 2 ? pair >> 16 : pair & 0xFFFFu) >= threshold;
  }
};

// The derivatives of a loss by one score.
template <class C>
struct ScoreGrad {
  C p;        // the probability that weighs the value: dropped, or divided by the chance of being kept
  C score;    // by the score with its bias
  C product;  // by the scaled product, before the soft cap
};

struct SdpaRules {
  int64_t shift;        // local query i stands at local key i + shift, plus the offset of its sequence
  int64_t left, right;  // the window around that position; -1: open
  int queries, keys;    // how many there are
  double softcap = 0;   // 0: none
  ScoreOperand mask, bias;
  const void* sinks = nullptr;                           // [H]
  const int64_t *offsets = nullptr, *lengths = nullptr;  // [B]
  int64_t first_key = 0;                                 // the global index of the first key
  const int64_t *query_segments = nullptr, *key_segments = nullptr;
  int64_t query_segments_step = 0, key_segments_step = 0;  // from one sequence to the next
  SdpaDropout dropout;

  // `call` is one of sdpa or sdpa_grad, with data.
  explicit SdpaRules(const KernelCall& call);

  __device__ int64_t Shift(int b) const {
    constexpr int64_t kFar = int64_t(1) << 40;
    return shift + (offsets ? max(-kFar, min(offsets[b], kFar)) : 0);
  }
  // Returns how many local keys of sequence b there are for its queries.
  __device__ int Length(int b) const {
    if (!lengths) return keys;
    int64_t length = lengths[b];
    return length <= first_key ? 0 : int(min(length - first_key, int64_t(keys)));
  }
  // Return the local keys that a query of sequence b sees by its position, all of them below Length(b); and the local
  // queries that see a key below Length(b).
  __device__ IndexRange Keys(int b, int i) const { return KeysAt(b, i + Shift(b)); }
  __device__ IndexRange KeysAt(int b, int64_t position) const {
    return Range(left < 0 ? 0 : position - left, right < 0 ? keys : position + right + 1, Length(b));
  }
  __device__ IndexRange Queries(int b, int j) const {
    int64_t first = j - Shift(b);
    return Range(right < 0 ? 0 : first - right, left < 0 ? queries : first + left + 1, queries);
  }
  // Returns whether mask and segments let a query see a key. Keys and Queries have the say about positions.
  __device__ bool Sees(const ScorePlace& at) const {
    if (mask.data && !mask.At<const uint8_t>(at)) return false;
    if (!query_segments) return true;
    int64_t of_key = key_segments[at.b * key_segments_step + at.j];
    return of_key >= 0 && of_key == query_segments[at.b * query_segments_step + at.i];
  }

  // Returns the score of a key that is seen. `product` is scaled. T is the dtype of the bias.
  template <class T, class C>
  __device__ C Score(C product, const ScorePlace& at) const {
    if (softcap > 0) product = C(softcap) * TanhOf(product * (1 / C(softcap)));
    return bias.data ? product + Widen(bias.At<const T>(at)) : product;
  }
  // `dp` is the cotangent of the probability after dropout.
  template <class T, class C>
  __device__ ScoreGrad<C> Gradient(C product, C dp, C lse, C delta, const ScorePlace& at) const {
    C p = ExpOf(Score<T>(product, at) - lse), factor = dropout.Keeps(at) ? C(dropout.kept) : C(0);
    C score = p * ((factor > 0 ? dp * factor : C(0)) - delta), slope = 1;
    if (softcap > 0) {
      C t = TanhOf(product * (1 / C(softcap)));
      slope = 1 - t * t;
    }
    return {p * factor, score, score * slope};
  }

 private:
  __device__ static IndexRange Range(int64_t begin, int64_t end, int64_t n) {
    end = max(int64_t(0), min(end, n));
    return {int(max(int64_t(0), min(begin, end))), int(end)};
  }
};

}  // namespace weft::cuda
