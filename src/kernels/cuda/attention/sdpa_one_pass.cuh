// The parts of a block of sdpa_one_pass.cu besides its products: shared memory, items of work, the thread that loads
// tiles, the threads that keep the order of sums, and how sums are stored. Requires code for sm_90a.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_rows.h"
#include "weft/kernels/cuda/attention/sdpa_scores.cuh"
#include "weft/kernels/cuda/attention/sdpa_warpgroup.cuh"
#include "weft/kernels/cuda/loops/tensor_tiles.cuh"

namespace weft::cuda::one_pass {

constexpr int kKeys = SdpaOnePass::kKeys, kBlock = SdpaOnePass::kBlock, kPanel = 64;
constexpr int kThreads = 384, kGroup = 128, kWarps = 2 * kGroup / kWarp;  // of a block, a warpgroup; warps that compute

template <HalfFloat T_, int D_, bool kOrdered_>
struct PassShape {
  using T = T_;
  static constexpr bool kOrdered = kOrdered_;  // whether sums have an order
  static constexpr int D = D_, kPanels = D / kPanel, kQueries = 8192 / D, kQueryPanels = kQueries / kPanel;
  static constexpr int kStages = D == 64 ? 2 : 3, kKeyStages = D == 64 ? 2 : 1;
  // Whether the product of dv begins with those of dk and dq, instead of while dS is computed. Measured: it gives 64
  // columns 1.12 and 128 columns 0.92 of the rate.
  static constexpr bool kTogether = D == 64;
  using Warp = WarpgroupWarp<T>;
  using KeyTile = typename Warp::template Tile<kKeys, D>;
  using QueryTile = typename Warp::template Tile<kQueries, D>;
  using ScoreTile = typename Warp::template Tile<kKeys, kQueries>;
  using Scores = float[1][kQueries / 8][4];  // of a thread: [64 keys of its warpgroup, kQueries]
  using Sums = float[1][D / 8][4];           // [64, D]
};

// The next share of dq that a block adds.
struct Turn {
  float* sums;    // of a warpgroup's share of a tile: 64 queries or 64 columns
  uint16_t* dq;   // where the last block puts it; null: others follow
  int rows;       // that exist
  bool has_sums;  // whether others were before
};

template <class Z>
struct PassMemory {
  alignas(1024) uint16_t k[Z::kKeyStages][Z::KeyTile::kElements];
  alignas(1024) uint16_t v[Z::kKeyStages][Z::KeyTile::kElements];
  alignas(1024) uint16_t q[Z::kStages][Z::QueryTile::kElements];
  alignas(1024) uint16_t dout[Z::kStages][Z::QueryTile::kElements];
  alignas(1024) uint16_t ds[Z::kStages][Z::ScoreTile::kElements];
  alignas(16) float lse[Z::kStages][Z::kQueries];
  alignas(16) float delta[Z::kStages][Z::kQueries];
  uint64_t keys_full[Z::kKeyStages], keys_empty[Z::kKeyStages], q_full[Z::kStages], dout_full[Z::kStages],
      empty[Z::kStages], ds_full[Z::kStages], ds_empty[Z::kStages], turn[2][2], added[2][2], told[2];
  Turn turn_of[2][2];       // of each warpgroup: of even and odd steps
  int item[Z::kKeyStages];  // -1: there is none
  int left[Z::kKeyStages];  // keys of the item and after it
};

struct Problem {
  SdpaSizes z;
  int parts, tiles, section, items;
  float scale_log2;
  SdpaRows<float> rows;
  int *counter, *added;  // `added`: per share of dq, how many tiles of keys have been added
  float *query_sums, *key_sums, *value_sums;
  SdpaOperand dq, dk, dv;

  // The last tile of keys that some of these queries see; -1: none.
  __device__ __forceinline__ int LastKeyTile(int query, int queries) const {
    return (z.Visible(min(query + queries, z.T) - 1) + kKeys - 1) / kKeys - 1;
  }
};
struct Maps {
  CUtensorMap q, k, v, dout;
};

// Where the values of a query are among those of its tile: a thread of Computer has four neighbours of 16.
__device__ __forceinline__ int PlaceOf(int query) {
  return (query & ~15) | (query & 6) << 1 | (query & 8) >> 2 | (query & 1);
}

template <int kStages>
struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void Advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// The work of an item: a step for each of `tiles` tiles of queries of the heads [head, end_head). If sums have an
// order, the last queries come first, so that few blocks have to wait for others: see TurnKeeper.
template <class Z>
struct Item {
  int b, g, part, head, end_head, key, first_tile, tiles;

  __device__ __forceinline__ Item(const Problem& p, int number) {
    int pairs = p.z.B * p.z.G * p.parts, group = number / (p.section * p.tiles),
        inside = number % (p.section * p.tiles);
    int wide = min(p.section, pairs - group * p.section), pair = group * p.section + inside % wide;
    part = pair % p.parts;
    g = pair / p.parts % p.z.G, b = pair / p.parts / p.z.G;
    key = inside / wide * kKeys;  // the first keys are seen by the most queries, so their items come first
    int first = p.z.FirstHead(g), heads = p.z.EndHead(g) - first;
    head = first + heads * part / p.parts, end_head = first + heads * (part + 1) / p.parts;
    first_tile = p.z.FirstQuery(key) / Z::kQueries;
    tiles = p.z.FirstQuery(key) < p.z.T ? (p.z.T + Z::kQueries - 1) / Z::kQueries - first_tile : 0;
  }
  __device__ __forceinline__ bool has_work() const { return head < end_head && tiles > 0; }
  __device__ __forceinline__ int TileOf(int step) const { return first_tile + (Z::kOrdered ? tiles - 1 - step : step); }
};

template <class Z>
struct Loader {
  PassMemory<Z>& s;
  const Maps& maps;
  const Problem& p;
  Ring<Z::kStages> ring{};
  Ring<Z::kKeyStages> keys{};

  template <int kRows>
  __device__ __forceinline__ void Load(uint16_t* to, const CUtensorMap& map, uint64_t* barrier, int row, int head,
                                       int b) {
#pragma unroll
    for (int panel = 0; panel < Z::kPanels; panel++)
      LoadTile(to + panel * kRows * kPanel, &map, barrier, panel * kPanel, row, head, b);
  }

  // Items are taken in their order by blocks that run. So none waits for an item of a block that has no multiprocessor
  // yet, for example because a collective's kernel has it.
  __device__ void Run() {
    for (;; keys.Advance()) {
      int number = atomicAdd(p.counter, 1);
      Await(&s.keys_empty[keys.stage], keys.parity ^ 1);
      bool has = number < p.items;
      s.item[keys.stage] = has ? number : -1;
      if (!has) return Arrive(&s.keys_full[keys.stage]);
      Item<Z> item(p, number);
      s.left[keys.stage] = p.z.S - item.key;
      uint64_t* full = &s.keys_full[keys.stage];
      ArriveExpecting(full, 2 * sizeof s.k[0]);
      Load<kKeys>(s.k[keys.stage], maps.k, full, item.key, item.g, item.b);
      Load<kKeys>(s.v[keys.stage], maps.v, full, item.key, item.g, item.b);
      for (int head = item.head; head < item.end_head; head++)
        for (int i = 0; i < item.tiles; i++) LoadQueries(item.b, head, item.TileOf(i) * Z::kQueries);
    }
  }
  __device__ __forceinline__ void LoadQueries(int b, int head, int query) {
    constexpr uint32_t kRowBytes = sizeof s.lse[0];
    int i = ring.stage;
    int64_t at = p.rows.At(p.z, b, head) + query;
    Await(&s.empty[i], ring.parity ^ 1);
    ArriveExpecting(&s.q_full[i], sizeof s.q[0] + kRowBytes);
    Load<Z::kQueries>(s.q[i], maps.q, &s.q_full[i], query, head, b);
    LoadBytes(s.lse[i], p.rows.lse + at, &s.q_full[i], kRowBytes);
    ArriveExpecting(&s.dout_full[i], sizeof s.dout[0] + kRowBytes);
    Load<Z::kQueries>(s.dout[i], maps.dout, &s.dout_full[i], query, head, b);
    LoadBytes(s.delta[i], p.rows.delta + at, &s.dout_full[i], kRowBytes);
    ring.Advance();
  }
};

__device__ __forceinline__ int Acquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// The order in which tiles of keys are added to a warpgroup's shares of dq, so that every run gives the same bits: a
// block waits for those of earlier keys. They are items with lower numbers, which other blocks have begun before.
// One thread per warpgroup gives it its turns, and one more tells other blocks about both.
template <class Z>
struct TurnKeeper {
  PassMemory<Z>& s;
  const Problem& p;
  Ring<Z::kKeyStages> keys{};
  uint32_t step = 0;

  // Calls fn(item, head, tile) for each step of the block.
  template <class Fn>
  __device__ __forceinline__ void ForEachStep(Fn fn) {
    for (;; keys.Advance()) {
      Await(&s.keys_full[keys.stage], keys.parity);
      int number = s.item[keys.stage];
      if (number < 0) return;
      Arrive(&s.keys_empty[keys.stage]);
      Item<Z> item(p, number);
      for (int head = item.head; head < item.end_head; head++)
        for (int i = 0; i < item.tiles; i++, step++) fn(item, head, item.TileOf(i));
    }
  }
  // The count of the tiles of keys that have been added to the shares of both warpgroups.
  __device__ __forceinline__ int* CountsOf(const Item<Z>& item, int head, int tile) const {
    return p.added + 2 * ((int64_t(item.b) * p.z.H + head) * (p.z.PaddedT() / Z::kQueries) + tile);
  }
  __device__ __forceinline__ bool IsLast(const Item<Z>& item, int tile) const {
    return item.key == p.LastKeyTile(tile * Z::kQueries, Z::kQueries) * kKeys;
  }

  __device__ void Give(int group) {
    ForEachStep([&](const Item<Z>& item, int head, int tile) {
      int row = tile * Z::kQueries, column = 0;
      (Z::kPanels > 1 ? column : row) += group * kBlock;
      const int* count = CountsOf(item, head, tile) + group;
      if (step >= 2) Await(&s.told[step & 1], (step >> 1 & 1) ^ 1);  // the step before the last is over
      s.turn_of[group][step & 1] = {p.query_sums + (count - p.added) * (kBlock * kBlock),
                                    IsLast(item, tile) ? p.dq.At<uint16_t>(item.b, row, head) + column : nullptr,
                                    p.z.T - row, item.key > 0};
      while (Acquire(count) < item.key / kKeys) {
      }
      Arrive(&s.turn[group][step & 1]);
    });
  }
  __device__ void Tell() {
    ForEachStep([&](const Item<Z>& item, int head, int tile) {
      for (int group = 0; group < 2; group++) Await(&s.added[group][step & 1], step >> 1 & 1);
      Arrive(&s.told[step & 1]);
      if (IsLast(item, tile)) return;
      int* counts = CountsOf(item, head, tile);
      __threadfence();
      for (int group = 0; group < 2; group++) atomicAdd(counts + group, 1);
    });
  }
};

// ---- sums in the order in which a warpgroup holds them ----

// A thread's 32 sums of a block of 64 rows and columns.
__device__ __forceinline__ void AddFours(float* to, const float (*c)[4]) {
#pragma unroll
  for (int n = 0; n < 8; n++)
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + n * (4 * kGroup)), "f"(c[n][0]),
                 "f"(c[n][1]), "f"(c[n][2]), "f"(c[n][3])
                 : "memory");
}
__device__ __forceinline__ void StoreFours(float* to, const float (*c)[4]) {
#pragma unroll
  for (int n = 0; n < 8; n++)
    __stcg(reinterpret_cast<float4*>(to + n * (4 * kGroup)), make_float4(c[n][0], c[n][1], c[n][2], c[n][3]));
}
__device__ __forceinline__ void AddSums(const float* from, float (&c)[8][4]) {
#pragma unroll
  for (int n = 0; n < 8; n++) {
    float4 sum = __ldcg(reinterpret_cast<const float4*>(from + n * (4 * kGroup)));
    c[n][0] += sum.x, c[n][1] += sum.y, c[n][2] += sum.z, c[n][3] += sum.w;
  }
}

// Lets each of four neighbours have the value number l % 4 of all four, in their order.
__device__ __forceinline__ void TransposeFour(uint32_t (&r)[4], int lane) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    bool upper = lane & step;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (i & step) continue;
      uint32_t got = __shfl_xor_sync(~0u, upper ? r[i] : r[i + step], step);
      (upper ? r[i] : r[i + step]) = got;
    }
  }
}
// Stores a block of 64 rows and columns that a warpgroup holds, of which at most `rows` rows exist.
template <HalfFloat T>
__device__ __forceinline__ void StoreBlock(const float (*c)[4], float scale, uint16_t* to, int64_t stride, int rows) {
  int lane = Lane(), row = int(threadIdx.x) % kGroup / kWarp * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int n = 0; n < 8; n += 4) {
      uint32_t r[4];
#pragma unroll
      for (int i = 0; i < 4; i++) r[i] = PackPair<T>(scale * c[n + i][2 * half], scale * c[n + i][2 * half + 1]);
      TransposeFour(r, lane);
      int at = row + 8 * half;
      if (at < rows)
        *reinterpret_cast<uint4*>(to + at * stride + 8 * (n + lane % 4)) = make_uint4(r[0], r[1], r[2], r[3]);
    }
}

// ---- values of a query ----

// The sum of the products of eight neighbours.
template <HalfFloat T>
__device__ __forceinline__ float DotOf(const uint4& x, const uint4& y) {
  const T *a = reinterpret_cast<const T*>(&x), *b = reinterpret_cast<const T*>(&y);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; i++) sum += Widen(a[i]) * Widen(b[i]);
  return sum;
}

// Keeps lse and delta of a query as SdpaRows has them, but at the query's place in its tile.
__device__ __forceinline__ void PutRow(const SdpaSizes& z, const SdpaOperand& lse, const SdpaRows<float>& rows, int b,
                                       int head, int query, float delta) {
  int64_t at = rows.At(z, b, head) + PlaceOf(query);
  float value = query < z.T ? *lse.At<float>(b, query, head) : -INFINITY;
  rows.lse[at] = value == -INFINITY ? INFINITY : value * float(kLog2E);
  rows.delta[at] = query < z.T ? delta : 0;
}

}  // namespace weft::cuda::one_pass
