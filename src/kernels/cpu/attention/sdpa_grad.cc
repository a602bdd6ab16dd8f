// Sdpa backward. The probabilities are recomputed from lse. One task is one KV head of one sequence, or all those that
// add to the same part of the bias's gradient. Only that task adds to the head's dk and dv, over query heads and query
// blocks in order, so results do not depend on the number of threads.
//
// The gradient of a bias is as large as all scores, and of a narrow type its sums over heads or sequences need a wider
// one. A second pass then computes these sums a block of queries at a time, so that no wide copy is kept.
#include <cstring>
#include <vector>

#include "weft/kernels/cpu/attention/sdpa_allowed.h"
#include "weft/kernels/cpu/attention/sdpa_scores.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/copy.h"

namespace weft::cpu {
namespace {

// The tiles of one worker. Dp and Ep are D and E rounded up to whole steps of TileProduct; the columns beyond D and E
// hold zeros.
template <class C>
struct Tiles {
  int64_t Dp, Ep;
  C *dk, *dv;                     // [S, Dp], [S, Ep]: the sums of the task
  C *q, *dout;                    // [D, Q], [E, Q]
  C *q_rows, *dout_rows;          // [Q, Dp], [Q, Ep]
  C *p, *ds, *slope;              // [K, Q]
  C* dq;                          // [D, Q]
  C *lse, *delta, *scale;         // [Q]; delta is the dot product of out and dout
  C *k, *v, *rows, *row, *other;  // [K, D] and [K, E], used if k and v are not of type C; [Q, D or E]; [Dp or Ep]
  C* bias;                        // [Q, S]: the sums of the second pass
  size_t bytes;

  Tiles(const SdpaSizes& z, bool second_pass, void* start) : Dp(RoundUp(z.D, kLanes<C>)), Ep(RoundUp(z.E, kLanes<C>)) {
    Scratch scratch(start);
    dk = scratch.Take<C>(z.S * Dp);
    dv = scratch.Take<C>(z.S * Ep);
    for (C** tile : {&q, &dq}) *tile = scratch.Take<C>(z.D * z.query_block);
    dout = scratch.Take<C>(z.E * z.query_block);
    q_rows = scratch.Take<C>(z.query_block * Dp);
    dout_rows = scratch.Take<C>(z.query_block * Ep);
    for (C** tile : {&p, &ds}) *tile = scratch.Take<C>(kKeyBlock * z.query_block);
    slope = z.softcap ? scratch.Take<C>(kKeyBlock * z.query_block) : nullptr;
    for (C** tile : {&lse, &delta, &scale}) *tile = scratch.Take<C>(z.query_block);
    k = scratch.Take<C>(kKeyBlock * z.D);
    v = scratch.Take<C>(kKeyBlock * z.E);
    rows = scratch.Take<C>(z.query_block * z.WidestHead());
    for (C** tile : {&row, &other}) *tile = scratch.Take<C>(std::max(Dp, Ep));
    bias = second_pass ? scratch.Take<C>(z.query_block * z.S) : nullptr;
    bytes = scratch.used();
  }
};

// Where the gradient of the bias is summed.
enum class BiasSum {
  kNone,       // there is no bias
  kResult,     // in the result: it is of type C, or no element has more than one term
  kWorkspace,  // in the workspace, and then converted: the result has one row for all queries
  kBlocks,     // in tiles of a second pass
};
BiasSum BiasSumOf(const KernelCall& call, const SdpaSizes& z) {
  if (SdpaOperands(*call.attrs, 6).bias < 0) return BiasSum::kNone;
  const TensorView& y = call.out[call.out.size() - 1];
  auto sums = [&](int dim, int64_t extent) { return y.dim(dim).global == 1 && extent > 1; };
  if (AccumulateType(y.dtype) == y.dtype) return BiasSum::kResult;
  if (sums(2, z.T)) return BiasSum::kWorkspace;
  return sums(0, z.B) || sums(1, z.H) ? BiasSum::kBlocks : BiasSum::kResult;
}

// Adds up the bias's gradient in the result or in the workspace.
template <class C>
class BiasSums {
 public:
  BiasSums(const KernelCall& call, const SdpaSizes& z, C* workspace) : where_(BiasSumOf(call, z)) {
    if (where_ != BiasSum::kResult && where_ != BiasSum::kWorkspace) return;
    view_ = call.out[call.out.size() - 1];
    result_ = Writer<C>(view_);
    if (where_ == BiasSum::kWorkspace) view_.data = workspace, view_.dtype = kDTypeOf<C>;
    read_ = Reader<C>(view_), write_ = Writer<C>(view_);
    if (where_ == BiasSum::kResult)
      ZeroBox(call, view_);
    else
      std::memset(view_.data, 0, size_t(view_.SpanElements()) * sizeof(C));
  }
  static int64_t Elements(const KernelCall& call, const SdpaSizes& z) {
    return BiasSumOf(call, z) == BiasSum::kWorkspace ? call.out[call.out.size() - 1].SpanElements() : 0;
  }

  // Adds the gradient of scores, ds [keys, width].
  void Add(const ScoreTile& tile, const C* ds) const {
    if (!view_.data) return;
    ScoreStrides at(view_);
    C row_tile[kKeyBlock];
    for (int64_t i = 0; i < tile.queries; i++) {
      int64_t offset = at.Row(tile, i);
      C* row = write_.Row(offset, 1, row_tile);
      if (row == row_tile) read_.Copy(offset, 1, tile.keys, row);
      for (int64_t j = 0; j < tile.keys; j++) row[j] += ds[j * tile.width + i];
      write_.Done(row, offset, 1, tile.keys);
    }
  }
  void Finish() const {
    if (where_ != BiasSum::kWorkspace) return;
    Rows rows(view_, 3);
    for (int64_t r = 0; r < rows.count(); r++)
      result_.Copy(view_.as<C>() + rows.Offset(r), rows.Offset(r), 1, view_.dim(3).extent);
  }

 private:
  BiasSum where_;
  TensorView view_;  // of the sums
  Reader<C> read_;
  Writer<C> write_, result_;
};

template <class C>
struct Pass {
  const KernelCall& call;
  const SdpaSizes& z;
  const ScoreRules<C>& rules;
  const BiasSums<C>& bias;
  const Tiles<C>& t;
};

// Sets y [Q, Dp] to rows of x times `scale`, with zeros beyond n rows and D columns.
template <class C>
void LoadRows(const HeadRows<C>& x, int64_t first, int64_t n, int64_t D, C scale, int64_t width, int64_t Dp, C* y,
              C* row_tile) {
  std::fill(y, y + width * Dp, C(0));
  for (int64_t i = 0; i < n; i++) {
    const C* row = x.Row(first + i, row_tile);
    for (int64_t d = 0; d < D; d++) y[i * Dp + d] = row[d] * scale;
  }
}

// Returns lse, or +inf for a query that sees no key: every probability is then exp(-inf) = 0.
template <class C>
C Visible(C lse) {
  return lse == -std::numeric_limits<C>::infinity() ? -lse : lse;
}
int64_t LseAt(const TensorView& lse, int64_t b, int64_t i, int64_t h) {
  return b * lse.dim(0).stride + i * lse.dim(1).stride + h * lse.dim(2).stride;
}

// Loads everything that queries [first, first + n) of head h need, and clears their sums.
template <class C>
void LoadQueries(const Pass<C>& pass, int64_t b, int64_t h, int64_t first, int64_t n) {
  auto& [call, z, rules, bias, t] = pass;
  int64_t width = z.query_block;
  HeadRows<C> q(call.in[0], b, h), out(call.in[3], b, h), dout(call.in[5], b, h);
  LoadTransposed(q, first, n, z.D, C(z.scale), width, t.q, t.rows);
  LoadTransposed(dout, first, n, z.E, C(1), width, t.dout, t.rows);
  LoadRows(q, first, n, z.D, C(z.scale), width, t.Dp, t.q_rows, t.row);
  LoadRows(dout, first, n, z.E, C(1), width, t.Ep, t.dout_rows, t.row);
  std::fill(t.lse, t.lse + width, C(0));
  std::fill(t.delta, t.delta + width, C(0));
  std::fill(t.dq, t.dq + z.D * width, C(0));
  Reader<C> lse(call.in[4]);
  for (int64_t i = 0; i < n; i++) {
    t.lse[i] = Visible(lse.At(LseAt(call.in[4], b, first + i, h)));
    t.delta[i] = Dot(out.Row(first + i, t.row), dout.Row(first + i, t.other), z.E);
  }
}

// Computes the probabilities p [K, Q] and the gradients ds [K, Q] of biased scores.
template <class C>
void GradScores(const Pass<C>& pass, const ScoreTile& tile, Left<C> k, Left<C> v) {
  auto& [call, z, rules, bias, t] = pass;
  int64_t width = tile.width, n = tile.keys;
  TileProduct<C>(n, width, z.D, k, t.q, width, t.p, width, false);  // scores [K, Q]
  rules.Apply(tile, t.p, t.slope);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < width; i += kWidth<C>) {
      C* p = t.p + j * width + i;
      StoreVector(p, ExpOfScore(LoadVector(p) - LoadVector(t.lse + i)));
    }
  TileProduct<C>(n, width, z.E, v, t.dout, width, t.ds, width, false);  // dp [K, Q]
  rules.Drop(tile, t.ds);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < width; i += kWidth<C>) {
      C* ds = t.ds + j * width + i;
      StoreVector(ds, LoadVector(t.p + j * width + i) * (LoadVector(ds) - LoadVector(t.delta + i)));
    }
}

template <class C>
void AddKeys(const Pass<C>& pass, const ScoreTile& tile, Left<C> k, Left<C> v) {
  auto& [call, z, rules, bias, t] = pass;
  int64_t width = tile.width, n = tile.keys, size = n * width;
  GradScores(pass, tile, k, v);
  rules.Drop(tile, t.p);
  TileProduct<C>(n, t.Ep, width, {t.p, width, 1}, t.dout_rows, t.Ep, t.dv + tile.key * t.Ep, t.Ep, true);  // dv [K, Ep]
  bias.Add(tile, t.ds);
  if (rules.has_softcap())
    for (int64_t i = 0; i < size; i += kWidth<C>) StoreVector(t.ds + i, LoadVector(t.ds + i) * LoadVector(t.slope + i));
  TileProduct<C>(n, t.Dp, width, {t.ds, width, 1}, t.q_rows, t.Dp, t.dk + tile.key * t.Dp, t.Dp, true);  // dk [K, Dp]
  TileProduct<C>(z.D, width, n, Transposed(k), t.ds, width, t.dq, width, true);                          // dq [D, Q]
}

// Calls fn(tile, keys, values) for the blocks of keys that queries [first, first + n) of head h may see.
template <class C, class Fn>
void ForEachTile(const Pass<C>& pass, int64_t b, int64_t h, int64_t first, int64_t n, Fn&& fn) {
  auto& [call, z, rules, bias, t] = pass;
  int64_t g = z.KvHead(h);
  HeadRows<C> k(call.in[1], b, g), v(call.in[2], b, g);
  KeyRange keys = rules.Keys(b, first, n);
  LoadQueries(pass, b, h, first, n);
  for (int64_t begin = keys.begin; begin < keys.end; begin += kKeyBlock) {
    ScoreTile tile{b, h, first, n, begin, std::min(kKeyBlock, keys.end - begin), z.query_block};
    if (!rules.Skips(tile)) fn(tile, k.Block(begin, tile.keys, t.k), v.Block(begin, tile.keys, t.v));
  }
}

template <class C>
void QueryHead(const Pass<C>& pass, int64_t b, int64_t h) {
  auto& [call, z, rules, bias, t] = pass;
  std::fill(t.scale, t.scale + z.query_block, C(z.scale));
  for (int64_t first = 0; first < z.T; first += z.query_block) {
    int64_t n = std::min(z.query_block, z.T - first);
    ForEachTile(pass, b, h, first, n, [&](const ScoreTile& tile, Left<C> k, Left<C> v) { AddKeys(pass, tile, k, v); });
    StoreTransposed(call.out[0], b, h, first, n, z.D, z.query_block, t.scale, t.dq, t.rows);
  }
}

template <class C>
void KvHead(const Pass<C>& pass, int64_t b, int64_t g) {
  auto& [call, z, rules, bias, t] = pass;
  std::fill(t.dk, t.dk + z.S * t.Dp, C(0));
  std::fill(t.dv, t.dv + z.S * t.Ep, C(0));
  for (int64_t h = 0; h < z.H; h++)
    if (z.KvHead(h) == g) QueryHead(pass, b, h);
  const TensorView &dk = call.out[1], &dv = call.out[2];
  Writer<C> y_dk(dk), y_dv(dv);
  for (int64_t j = 0; j < z.S; j++) {
    y_dk.Copy(t.dk + j * t.Dp, b * dk.dim(0).stride + j * dk.dim(1).stride + g * dk.dim(2).stride, 1, z.D);
    y_dv.Copy(t.dv + j * t.Ep, b * dv.dim(0).stride + j * dv.dim(1).stride + g * dv.dim(2).stride, 1, z.E);
  }
}

// dsinks [H]: a sink's probability is exp(sink - lse), and its value is 0.
template <class C>
void SinkGradients(const KernelCall& call, const SdpaSizes& z, const ScoreRules<C>& rules) {
  ParallelFor(call, z.H, 1, [&](int64_t begin, int64_t end) {
    std::vector<C> row(size_t(z.E)), other(size_t(z.E));  // [E]
    Reader<C> lse(call.in[4]);
    Writer<C> to(call.out[3]);
    for (int64_t h = begin; h < end; h++) {
      C sum = 0, sink = rules.Sink(h);
      for (int64_t b = 0; b < z.B; b++) {
        HeadRows<C> out(call.in[3], b, h), dout(call.in[5], b, h);
        for (int64_t i = 0; i < z.T; i++) {
          C p = std::exp(sink - Visible(lse.At(LseAt(call.in[4], b, i, h))));
          sum -= p * Dot(out.Row(i, row.data()), dout.Row(i, other.data()), z.E);
        }
      }
      to.Set(h * call.out[3].dim(0).stride, sum);
    }
  });
}

// The tasks: every (sequence, KV head), but all sequences or heads together that add to the same sums of the bias.
struct Tasks {
  int64_t B, G, b_each, g_each;
  Tasks(const SdpaSizes& z, bool over_b, bool over_h)
      : B(over_b ? std::min<int64_t>(z.B, 1) : z.B),
        G(over_h ? std::min<int64_t>(z.G, 1) : z.G),
        b_each(over_b ? z.B : 1),
        g_each(over_h ? z.G : 1) {}
  int64_t count() const { return B * G; }
};
Tasks TasksOf(const KernelCall& call, const SdpaSizes& z) {
  BiasSum where = BiasSumOf(call, z);
  if (where == BiasSum::kNone || where == BiasSum::kBlocks) return {z, false, false};
  const TensorView& bias = call.out[call.out.size() - 1];
  return {z, bias.dim(0).global == 1, bias.dim(1).global == 1};
}
int64_t Slots(const KernelCall& call, const Tasks& tasks) {
  return std::clamp<int64_t>(tasks.count(), 1, Threads(call));
}

// The second pass: a task is a block of queries, and one sequence and head or all that share the bias.
template <class C>
void BiasBlock(const Pass<C>& pass, int64_t b, int64_t h, int64_t first) {
  auto& [call, z, rules, bias, t] = pass;
  const TensorView& y = call.out[call.out.size() - 1];
  bool over_b = y.dim(0).global == 1, over_h = y.dim(1).global == 1;
  int64_t n = std::min(z.query_block, z.T - first);
  C* sums = t.bias;
  std::fill(sums, sums + n * z.S, C(0));
  for (int64_t sequence = over_b ? 0 : b; sequence < (over_b ? z.B : b + 1); sequence++)
    for (int64_t head = over_h ? 0 : h; head < (over_h ? z.H : h + 1); head++)
      ForEachTile(pass, sequence, head, first, n, [&](const ScoreTile& tile, Left<C> k, Left<C> v) {
        GradScores(pass, tile, k, v);
        for (int64_t i = 0; i < n; i++)
          for (int64_t j = 0; j < tile.keys; j++) sums[i * z.S + tile.key + j] += t.ds[j * tile.width + i];
      });
  Writer<C> to(y);
  ScoreStrides at(y);
  for (int64_t i = 0; i < n; i++) to.Copy(sums + i * z.S, b * at.b + h * at.h + (first + i) * at.t, 1, z.S);
}
template <class C>
void BiasBlocks(const Pass<C>& pass, int64_t begin, int64_t end) {
  const TensorView& y = pass.call.out[pass.call.out.size() - 1];
  int64_t blocks = CeilDiv(pass.z.T, pass.z.query_block), heads = y.dim(1).extent;
  for (int64_t i = begin; i < end; i++)
    BiasBlock(pass, i / blocks / heads, i / blocks % heads, i % blocks * pass.z.query_block);
}
int64_t NumBiasBlocks(const KernelCall& call, const SdpaSizes& z) {
  if (BiasSumOf(call, z) != BiasSum::kBlocks) return 0;
  const TensorView& y = call.out[call.out.size() - 1];
  return y.dim(0).extent * y.dim(1).extent * CeilDiv(z.T, z.query_block);
}

template <class C>
void SdpaGradAs(const KernelCall& call) {
  SdpaSizes z(call, kLanes<C>);
  SdpaOperands at(*call.attrs, 6);
  ScoreRules<C> rules(call, z, 6);
  Tasks tasks = TasksOf(call, z);
  int64_t slots = Slots(call, tasks), bias_blocks = NumBiasBlocks(call, z);
  size_t slot_bytes = Tiles<C>(z, bias_blocks > 0, nullptr).bytes;
  char* workspace = static_cast<char*>(call.workspace);
  if (at.sinks >= 0) SinkGradients(call, z, rules);
  BiasSums<C> bias(call, z, reinterpret_cast<C*>(workspace + size_t(slots) * slot_bytes));
  auto pass_of = [&](int64_t slot, auto&& fn) {
    Tiles<C> tiles(z, bias_blocks > 0, workspace + size_t(slot) * slot_bytes);
    fn(Pass<C>{call, z, rules, bias, tiles});
  };
  ParallelSlots(call, bias_blocks, slots, [&](int64_t slot, int64_t begin, int64_t end) {
    pass_of(slot, [&](const Pass<C>& pass) { BiasBlocks(pass, begin, end); });
  });
  ParallelSlots(call, tasks.count(), slots, [&](int64_t slot, int64_t begin, int64_t end) {
    pass_of(slot, [&](const Pass<C>& pass) {
      for (int64_t i = begin; i < end; i++)
        for (int64_t b = 0; b < tasks.b_each; b++)
          for (int64_t g = 0; g < tasks.g_each; g++) KvHead(pass, i / tasks.G + b, i % tasks.G + g);
    });
  });
  bias.Finish();
}

size_t SdpaGradWorkspace(const KernelCall& call) {
  CheckFlashAllowed(call);
  return DispatchCompute(call.in[0].dtype, [&](auto zero) {
    using C = decltype(zero);
    SdpaSizes z(call, kLanes<C>);
    return size_t(Slots(call, TasksOf(call, z))) * Tiles<C>(z, NumBiasBlocks(call, z) > 0, nullptr).bytes +
           size_t(BiasSums<C>::Elements(call, z)) * sizeof(C);
  });
}
void SdpaGrad(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { SdpaGradAs<decltype(zero)>(call); });
}

}  // namespace

// In place: a block of q is written after its last use, and a head of k and v after its task. The gradients of sinks
// and bias must not lie on out or lse, which are read to the end.
void AddSdpaGrad(KernelTable& table) {
  table.Add(
      Op::kSdpaGrad,
      {.run = &SdpaGrad, .workspace = &SdpaGradWorkspace, .slices = true, .in_place = true, .in_place_outputs = 3});
}

}  // namespace weft::cpu
