// Sdpa of one query per sequence, as a model that writes text computes it. A tile of queries would be mostly padding,
// so vectors run over the dims of a head instead.
#pragma once
#include "weft/kernels/cpu/attention/sdpa_scores.h"

namespace weft::cpu {

// Ends the running softmax of a query. Returns its log-sum-exp, and turns `sum` into the factor of its results.
template <class C>
C EndSoftmax(const ScoreRules<C>& rules, int64_t h, C largest, C& sum) {
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  C top = largest, total = sum, factor = 1;
  if (C sink = rules.has_sinks() ? rules.Sink(h) : kNone; sink > kNone) {
    top = std::max(largest, sink);
    factor = std::exp(largest - top);
    total = sum * factor + std::exp(sink - top);
  }
  sum = total > 0 ? factor / total : C(0);
  return top + std::log(total);
}

// One query of one head: its scores of a block of keys [K], and the sum of the values so far, weighed by exp(score -
// largest), [E].
template <class C>
struct SdpaRow {
  C *s, *out;
  C largest = -std::numeric_limits<C>::infinity(), sum = 0;

  // Turns the scores of n keys into weights.
  void Weigh(int64_t n, int64_t E) {
    constexpr C kNone = -std::numeric_limits<C>::infinity();
    std::fill(s + n, s + RoundUp(n, kWidth<C>), kNone);
    C top = std::max(largest, *std::max_element(s, s + n)), base = top == kNone ? C(0) : top;
    Vector<C> total{};
    for (int64_t j = 0; j < n; j += kWidth<C>) {
      Vector<C> p = ExpOfScore(LoadVector(s + j) - base);
      StoreVector(s + j, p);
      total += p;
    }
    C factor = std::exp(largest - base);
    for (int64_t d = 0; factor != 1 && d < E; d++) out[d] *= factor;
    sum *= factor;
    for (int64_t lane = 0; lane < kWidth<C>; lane++) sum += total[lane];
    largest = top;
  }

  // Adds n weighed values v [n, E]. Four at a time, because each step reads and writes `out`.
  void Add(int64_t n, int64_t E, Left<C> v) {
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
      const C *v0 = v.data + j * v.row, *v1 = v0 + v.row, *v2 = v1 + v.row, *v3 = v2 + v.row;
      C p0 = s[j], p1 = s[j + 1], p2 = s[j + 2], p3 = s[j + 3];
#pragma GCC ivdep
      for (int64_t d = 0; d < E; d++) out[d] += p0 * v0[d] + p1 * v1[d] + p2 * v2[d] + p3 * v3[d];
    }
    for (; j < n; j++)
      for (int64_t d = 0; d < E; d++) out[d] += s[j] * v.data[j * v.row + d];
  }
};

// Computes the query of head h of sequence b. `tiles` has room for q [D], s [K], o [E], and a block of keys and values.
template <class C, class Tiles>
void QueryRow(const KernelCall& call, const SdpaSizes& z, const ScoreRules<C>& rules, const Tiles& tiles, int64_t b,
              int64_t h) {
  const C* q = HeadRows<C>(call.in[0], b, h).Row(0, tiles.rows);  // [D]
  for (int64_t d = 0; d < z.D; d++) tiles.q[d] = q[d] * C(z.scale);
  HeadRows<C> k(call.in[1], b, z.KvHead(h)), v(call.in[2], b, z.KvHead(h));
  SdpaRow<C> row{tiles.s, tiles.o};
  std::fill(row.out, row.out + z.E, C(0));
  KeyRange keys = rules.Keys(b, 0, 1);
  for (int64_t begin = keys.begin; begin < keys.end; begin += kKeyBlock) {
    ScoreTile tile{b, h, 0, 1, begin, std::min(kKeyBlock, keys.end - begin), 1};
    if (rules.Skips(tile)) continue;
    Left<C> block = k.Block(begin, tile.keys, tiles.k);  // [K, D]
    for (int64_t j = 0; j < tile.keys; j++) row.s[j] = Dot(tiles.q, block.data + j * block.row, z.D);
    rules.Apply(tile, row.s);
    row.Weigh(tile.keys, z.E);
    rules.Drop(tile, row.s);
    row.Add(tile.keys, z.E, v.Block(begin, tile.keys, tiles.v));
  }
  const TensorView &out = call.out[0], &lse = call.out[1];
  Writer<C>(lse).Set(b * lse.dim(0).stride + h * lse.dim(2).stride, EndSoftmax(rules, h, row.largest, row.sum));
  for (int64_t d = 0; d < z.E; d++) row.out[d] *= row.sum;
  Writer<C>(out).Copy(row.out, b * out.dim(0).stride + h * out.dim(2).stride, 1, z.E);
}

}  // namespace weft::cpu
