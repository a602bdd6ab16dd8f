// Sdpa forward: blocks of queries against blocks of keys with a running softmax. Memory is linear in the sequence
// length. Single queries have their own loop (sdpa_row.h).
#include "weft/kernels/cpu/attention/sdpa_allowed.h"
#include "weft/kernels/cpu/attention/sdpa_row.h"
#include "weft/kernels/cpu/families.h"

namespace weft::cpu {
namespace {

// The tiles of one worker.
template <class C>
struct Tiles {
  C *q, *s, *o;      // [D, Q], [K, Q], [E, Q]
  C *largest, *sum;  // [Q]: the running softmax
  C *k, *v, *rows;   // [K, D] and [K, E], used if k and v are not of type C; [Q, D or E]
  size_t bytes;

  Tiles(const SdpaSizes& z, void* start) {
    Scratch scratch(start);
    q = scratch.Take<C>(z.D * z.query_block);
    s = scratch.Take<C>(kKeyBlock * z.query_block);
    o = scratch.Take<C>(z.E * z.query_block);
    largest = scratch.Take<C>(z.query_block);
    sum = scratch.Take<C>(z.query_block);
    k = scratch.Take<C>(kKeyBlock * z.D);
    v = scratch.Take<C>(kKeyBlock * z.E);
    rows = scratch.Take<C>(z.query_block * z.WidestHead());
    bytes = scratch.used();
  }
};

// Turns one vector of columns of the scores s [n, width] into exp(s - max), and updates max and sum. Returns the factor
// by which earlier sums must be scaled.
template <class C>
Vector<C> SoftmaxColumns(int64_t n, int64_t width, C* s, C* largest, C* sum) {
  const Vector<C> none = Splat(-std::numeric_limits<C>::infinity());
  Vector<C> before = LoadVector(largest), top = before, total{};
  for (int64_t j = 0; j < n; j++) {
    Vector<C> x = LoadVector(s + j * width);
    top = x > top ? x : top;
  }
  Vector<C> base = top == none ? Vector<C>{} : top;  // a column that has seen no key stays at exp(-inf - 0) = 0
  for (int64_t j = 0; j < n; j++) {
    Vector<C> p = ExpOfScore(LoadVector(s + j * width) - base);
    StoreVector(s + j * width, p);
    total += p;
  }
  Vector<C> factor = ExpOfScore(before - base);
  StoreVector(largest, top);
  StoreVector(sum, LoadVector(sum) * factor + total);
  return factor;
}

// Adds a block of keys to the running softmax. `empty`: it is the first one.
template <class C>
void AddKeys(const SdpaSizes& z, const ScoreRules<C>& rules, const Tiles<C>& t, const ScoreTile& tile, Left<C> k,
             Left<C> v, bool empty) {
  int64_t width = tile.width, n = tile.keys;
  TileProduct<C>(n, width, z.D, k, t.q, width, t.s, width, false);  // [K, Q]
  rules.Apply(tile, t.s);
  for (int64_t i = 0; i < width; i += kWidth<C>) {
    Vector<C> factor = SoftmaxColumns(n, width, t.s + i, t.largest + i, t.sum + i);
    if (empty) continue;
    for (int64_t d = 0; d < z.E; d++) StoreVector(t.o + d * width + i, LoadVector(t.o + d * width + i) * factor);
  }
  rules.Drop(tile, t.s);
  TileProduct<C>(z.E, width, n, Transposed(v), t.s, width, t.o, width, !empty);  // [E, Q]
}

// Computes queries [first, first + n) of one head.
template <class C>
void QueryBlock(const KernelCall& call, const SdpaSizes& z, const ScoreRules<C>& rules, const Tiles<C>& t, int64_t b,
                int64_t h, int64_t first, int64_t n) {
  int64_t g = z.KvHead(h), width = z.query_block;
  KeyRange keys = rules.Keys(b, first, n);
  LoadTransposed(HeadRows<C>(call.in[0], b, h), first, n, z.D, C(z.scale), width, t.q, t.rows);  // [D, Q]
  std::fill(t.largest, t.largest + width, -std::numeric_limits<C>::infinity());
  std::fill(t.sum, t.sum + width, C(0));
  HeadRows<C> k(call.in[1], b, g), v(call.in[2], b, g);
  bool empty = true;
  for (int64_t begin = keys.begin; begin < keys.end; begin += kKeyBlock) {
    ScoreTile tile{b, h, first, n, begin, std::min(kKeyBlock, keys.end - begin), width};
    if (rules.Skips(tile)) continue;
    AddKeys(z, rules, t, tile, k.Block(begin, tile.keys, t.k), v.Block(begin, tile.keys, t.v), empty);
    empty = false;
  }
  if (empty) std::fill(t.o, t.o + z.E * width, C(0));
  const TensorView& lse = call.out[1];
  Writer<C> y_lse(lse);
  for (int64_t i = 0; i < width; i++) {
    C value = EndSoftmax(rules, h, t.largest[i], t.sum[i]);
    if (i < n) y_lse.Set(b * lse.dim(0).stride + (first + i) * lse.dim(1).stride + h * lse.dim(2).stride, value);
  }
  StoreTransposed(call.out[0], b, h, first, n, z.E, width, t.sum, t.o, t.rows);
}

template <class C>
void SdpaAs(const KernelCall& call) {
  SdpaSizes z(call, kLanes<C>);
  ScoreRules<C> rules(call, z, 3);
  size_t slot_bytes = Tiles<C>(z, nullptr).bytes;
  if (z.T == 1) {
    constexpr int64_t kFew = 32768;  // below so many products, waking threads costs more than they save
    bool few = z.B * z.H * z.D * std::min(z.S, z.B > 0 ? rules.Keys(0, 0, 1).end : 0) < kFew;
    return ParallelSlots(call, z.B * z.H, few ? 1 : Threads(call), [&](int64_t slot, int64_t begin, int64_t end) {
      Tiles<C> tiles(z, static_cast<char*>(call.workspace) + size_t(slot) * slot_bytes);
      for (int64_t i = begin; i < end; i++) QueryRow(call, z, rules, tiles, i / z.H, i % z.H);
    });
  }
  int64_t blocks = CeilDiv(z.T, z.query_block);
  ParallelSlots(call, z.B * z.H * blocks, Threads(call), [&](int64_t slot, int64_t begin, int64_t end) {
    Tiles<C> tiles(z, static_cast<char*>(call.workspace) + size_t(slot) * slot_bytes);
    for (int64_t i = begin; i < end; i++) {
      int64_t first = i % blocks * z.query_block, head = i / blocks;
      QueryBlock(call, z, rules, tiles, head / z.H, head % z.H, first, std::min(z.query_block, z.T - first));
    }
  });
}

size_t SdpaWorkspace(const KernelCall& call) {
  CheckFlashAllowed(call);
  return DispatchCompute(call.in[0].dtype, [&](auto zero) {
    using C = decltype(zero);
    return size_t(Threads(call)) * Tiles<C>(SdpaSizes(call, kLanes<C>), nullptr).bytes;
  });
}
void Sdpa(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { SdpaAs<decltype(zero)>(call); });
}

}  // namespace

// In place: a block of q is read once, before its outputs are written.
void AddSdpa(KernelTable& table) {
  table.Add(Op::kSdpa,
            {.run = &Sdpa, .workspace = &SdpaWorkspace, .slices = true, .in_place = true, .in_place_outputs = 1});
}

}  // namespace weft::cpu
