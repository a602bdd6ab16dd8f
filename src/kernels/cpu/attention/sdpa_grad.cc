// Sdpa backward. The probabilities are recomputed from lse. One task is one KV head of one sequence. Only that task
// adds to the head's dk and dv, over query heads and query blocks in order, so results do not depend on the number of
// threads.
#include "weft/core/ops/attention.h"

#include "weft/kernels/cpu/attention/sdpa_tiles.h"
#include "weft/kernels/cpu/families.h"

namespace weft::cpu {
namespace {

// The tiles of one worker. Dp is D rounded up to whole steps of TileProduct; the columns beyond D hold zeros.
template <class C>
struct Tiles {
  int64_t Dp;
  C *dk, *dv;                     // [S, Dp]: the sums of the task
  C *q, *dout;                    // [D, Q]
  C *q_rows, *dout_rows;          // [Q, Dp]
  C *p, *ds;                      // [K, Q]
  C* dq;                          // [D, Q]
  C *lse, *delta, *scale;         // [Q]; delta is the dot product of out and dout
  C *k, *v, *rows, *row, *other;  // [K, D], used if k and v are not of type C; [Q, D]; [Dp]
  size_t bytes;

  Tiles(const SdpaSizes& z, void* start) : Dp(RoundUp(z.D, kLanes<C>)) {
    Scratch scratch(start);
    dk = scratch.Take<C>(z.S * Dp);
    dv = scratch.Take<C>(z.S * Dp);
    for (C** tile : {&q, &dout, &dq}) *tile = scratch.Take<C>(z.D * z.query_block);
    for (C** tile : {&q_rows, &dout_rows}) *tile = scratch.Take<C>(z.query_block * Dp);
    for (C** tile : {&p, &ds}) *tile = scratch.Take<C>(kKeyBlock * z.query_block);
    for (C** tile : {&lse, &delta, &scale}) *tile = scratch.Take<C>(z.query_block);
    for (C** tile : {&k, &v}) *tile = scratch.Take<C>(kKeyBlock * z.D);
    rows = scratch.Take<C>(z.query_block * z.D);
    for (C** tile : {&row, &other}) *tile = scratch.Take<C>(Dp);
    bytes = scratch.used();
  }
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

// Loads everything that queries [first, first + n) of head h need, and clears their sums.
template <class C>
void LoadQueries(const KernelCall& call, const SdpaSizes& z, const Tiles<C>& t, int64_t b, int64_t h, int64_t first,
                 int64_t n) {
  int64_t width = z.query_block;
  const TensorView& lse = call.in[4];
  HeadRows<C> q(call.in[0], b, h), out(call.in[3], b, h), dout(call.in[5], b, h);
  LoadTransposed(q, first, n, z.D, C(z.scale), width, t.q, t.rows);
  LoadTransposed(dout, first, n, z.D, C(1), width, t.dout, t.rows);
  LoadRows(q, first, n, z.D, C(z.scale), width, t.Dp, t.q_rows, t.row);
  LoadRows(dout, first, n, z.D, C(1), width, t.Dp, t.dout_rows, t.row);
  std::fill(t.lse, t.lse + width, C(0));
  std::fill(t.delta, t.delta + width, C(0));
  std::fill(t.dq, t.dq + z.D * width, C(0));
  Reader<C> in_lse(lse);
  for (int64_t i = 0; i < n; i++) {
    C value = in_lse.At(b * lse.dim(0).stride + (first + i) * lse.dim(1).stride + h * lse.dim(2).stride);
    t.lse[i] =
        // Without a visible key, lse = +inf makes every probability exp(-inf) = 0.
        value == -std::numeric_limits<C>::infinity() ? -value : value;
    t.delta[i] = Dot(out.Row(first + i, t.row), dout.Row(first + i, t.other), z.D);
  }
}

template <class C>
void AddKeys(const SdpaSizes& z, const Tiles<C>& t, Left<C> k, Left<C> v, int64_t first, int64_t begin, int64_t n) {
  int64_t width = z.query_block;
  TileProduct<C>(n, width, z.D, k, t.q, width, t.p, width, false);  // scores [K, Q]
  if (begin + n > z.Visible(first)) MaskScores(z, first, begin, n, width, t.p);
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < width; i += kWidth<C>) {
      C* p = t.p + j * width + i;
      StoreVector(p, ExpOfScore(LoadVector(p) - LoadVector(t.lse + i)));
    }
  TileProduct<C>(n, t.Dp, width, {t.p, width, 1}, t.dout_rows, t.Dp, t.dv + begin * t.Dp, t.Dp, true);  // dv [K, Dp]
  TileProduct<C>(n, width, z.D, v, t.dout, width, t.ds, width, false);                                  // dp [K, Q]
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < width; i += kWidth<C>) {
      C* ds = t.ds + j * width + i;
      StoreVector(ds, LoadVector(t.p + j * width + i) * (LoadVector(ds) - LoadVector(t.delta + i)));
    }
  TileProduct<C>(n, t.Dp, width, {t.ds, width, 1}, t.q_rows, t.Dp, t.dk + begin * t.Dp, t.Dp, true);  // dk [K, Dp]
  TileProduct<C>(z.D, width, n, Transposed(k), t.ds, width, t.dq, width, true);                       // dq [D, Q]
}

template <class C>
void QueryHead(const KernelCall& call, const SdpaSizes& z, const Tiles<C>& t, int64_t b, int64_t g, int64_t h) {
  HeadRows<C> k(call.in[1], b, g), v(call.in[2], b, g);
  std::fill(t.scale, t.scale + z.query_block, C(z.scale));
  for (int64_t first = 0; first < z.T; first += z.query_block) {
    int64_t n = std::min(z.query_block, z.T - first), keys = z.Visible(first + n - 1);
    LoadQueries(call, z, t, b, h, first, n);
    for (int64_t begin = 0; begin < keys; begin += kKeyBlock) {
      int64_t count = std::min(kKeyBlock, keys - begin);
      AddKeys(z, t, k.Block(begin, count, t.k), v.Block(begin, count, t.v), first, begin, count);
    }
    StoreTransposed(call.out[0], b, h, first, n, z.D, z.query_block, t.scale, t.dq, t.rows);
  }
}

template <class C>
void KvHeadTask(const KernelCall& call, const SdpaSizes& z, const Tiles<C>& t, int64_t b, int64_t g) {
  std::fill(t.dk, t.dk + z.S * t.Dp, C(0));
  std::fill(t.dv, t.dv + z.S * t.Dp, C(0));
  for (int64_t h = 0; h < z.H; h++)
    if (z.KvHead(h) == g) QueryHead(call, z, t, b, g, h);
  const TensorView &dk = call.out[1], &dv = call.out[2];
  Writer<C> y_dk(dk), y_dv(dv);
  for (int64_t j = 0; j < z.S; j++) {
    y_dk.Copy(t.dk + j * t.Dp, b * dk.dim(0).stride + j * dk.dim(1).stride + g * dk.dim(2).stride, 1, z.D);
    y_dv.Copy(t.dv + j * t.Dp, b * dv.dim(0).stride + j * dv.dim(1).stride + g * dv.dim(2).stride, 1, z.D);
  }
}

template <class C>
int64_t Slots(const KernelCall& call, const SdpaSizes& z) {
  return std::clamp<int64_t>(z.B * z.G, 1, Threads(call));
}

template <class C>
void SdpaGradAs(const KernelCall& call) {
  SdpaSizes z(call, kLanes<C>);
  size_t slot_bytes = Tiles<C>(z, nullptr).bytes;
  ParallelSlots(call, z.B * z.G, Slots<C>(call, z), [&](int64_t slot, int64_t begin, int64_t end) {
    Tiles<C> tiles(z, static_cast<char*>(call.workspace) + size_t(slot) * slot_bytes);
    for (int64_t i = begin; i < end; i++) KvHeadTask(call, z, tiles, i / z.G, i % z.G);
  });
}

size_t SdpaGradWorkspace(const KernelCall& call) {
  return DispatchCompute(call.in[0].dtype, [&](auto zero) {
    using C = decltype(zero);
    SdpaSizes z(call, kLanes<C>);
    return size_t(Slots<C>(call, z)) * Tiles<C>(z, nullptr).bytes;
  });
}
void SdpaGrad(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { SdpaGradAs<decltype(zero)>(call); });
}

}  // namespace

// In place: a block of q is written after its last use, and a head of k and v after its task.
void AddSdpaGrad(KernelTable& table) {
  table.Add(Op::kSdpaGrad, {.run = &SdpaGrad, .workspace = &SdpaGradWorkspace, .in_place = true});
}

}  // namespace weft::cpu
