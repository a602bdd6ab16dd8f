// The gradient of attention in one pass over the scores (Dao 2023; Shah et al. 2024), for 16-bit floats and heads of 64
// and 128 columns. A block has 128 keys and walks the queries that see them:
//
//   S^T = K Q^T, P = exp(S - lse), dP^T = V dO^T, dV += P^T dO, dS = P (dP - delta), dK += dS^T Q, dQ += dS K
//
// One warpgroup copies by tensor maps, two compute 64 keys each. P and dS are in the registers where the products of dV
// and dK take them. dS goes to shared memory too, from which both warpgroups compute a part of dQ, which they add to
// sums in f32 in any order. Blocks are persistent, so that the next keys arrive while these are worked on.
#include <array>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_one_pass.h"
#include "weft/kernels/cuda/attention/sdpa_rows.h"
#include "weft/kernels/cuda/attention/sdpa_scores.cuh"
#include "weft/kernels/cuda/attention/sdpa_warpgroup.cuh"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/tensor_tiles.cuh"

namespace weft::cuda {
namespace {

constexpr int kKeys = SdpaOnePass::kKeys, kBlock = SdpaOnePass::kBlock, kPanel = 64;
constexpr int kPrepare = 256, kThreads = 384, kGroup = 128, kComputers = 2 * kGroup, kWarps = kComputers / kWarp;

template <HalfFloat T_, int D_>
struct PassShape {
  using T = T_;
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
      empty[Z::kStages], ds_full[Z::kStages], ds_empty[Z::kStages];
  int item[Z::kKeyStages];  // -1: there is none
};

struct Problem {
  SdpaSizes z;
  int parts, tiles, section, items;
  float scale_log2;
  SdpaRows<float> rows;
  int* counter;
  float *query_sums, *key_sums, *value_sums;
  SdpaOperand dk, dv;
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

// The work of an item: the steps through the tiles of queries [first_tile, end_tile) of the heads [head, end_head).
template <class Z>
struct Item {
  int b, g, head, end_head, key, first_tile, end_tile;

  __device__ __forceinline__ Item(const Problem& p, int number) {
    int pairs = p.z.B * p.z.G * p.parts, group = number / (p.section * p.tiles),
        inside = number % (p.section * p.tiles);
    int wide = min(p.section, pairs - group * p.section), pair = group * p.section + inside % wide;
    int part = pair % p.parts;
    g = pair / p.parts % p.z.G, b = pair / p.parts / p.z.G;
    key = inside / wide * kKeys;  // the first keys are seen by the most queries, so their items come first
    int first = p.z.FirstHead(g), heads = p.z.EndHead(g) - first;
    head = first + heads * part / p.parts, end_head = first + heads * (part + 1) / p.parts;
    first_tile = p.z.FirstQuery(key) / Z::kQueries, end_tile = (p.z.T + Z::kQueries - 1) / Z::kQueries;
    if (p.z.FirstQuery(key) >= p.z.T) end_tile = first_tile;
  }
  __device__ __forceinline__ bool has_work() const { return head < end_head && first_tile < end_tile; }
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

  __device__ void Run() {
    for (int number = int(blockIdx.x);; keys.Advance()) {
      Await(&s.keys_empty[keys.stage], keys.parity ^ 1);
      bool has = number < p.items;
      s.item[keys.stage] = has ? number : -1;
      if (!has) return Arrive(&s.keys_full[keys.stage]);
      Item<Z> item(p, number);
      uint64_t* full = &s.keys_full[keys.stage];
      ArriveExpecting(full, 2 * sizeof s.k[0]);
      Load<kKeys>(s.k[keys.stage], maps.k, full, item.key, item.g, item.b);
      Load<kKeys>(s.v[keys.stage], maps.v, full, item.key, item.g, item.b);
      for (int head = item.head; head < item.end_head; head++)
        for (int tile = item.first_tile; tile < item.end_tile; tile++) LoadQueries(item.b, head, tile * Z::kQueries);
      number = int(gridDim.x) + atomicAdd(p.counter, 1);
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

__device__ __forceinline__ void AddFour(float* to, const float (&x)[4]) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
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

// One of the threads that compute. Element [n][2 h + e] of its scores is key FirstRow() + 8 h of its warp, query
// 8 n + FirstColumn() + e of the tile.
template <class Z>
struct Computer {
  using T = typename Z::T;
  using Warp = typename Z::Warp;
  using Scores = typename Z::Scores;
  using Sums = typename Z::Sums;
  using Operand = uint32_t[Z::kQueries / 16][4];

  PassMemory<Z>& s;
  const Problem& p;
  int lane;
  Ring<Z::kStages> ring{};  // of queries, and of cotangents
  Ring<Z::kKeyStages> keys{};
  float* share = nullptr;  // where the share of dq of the latest tile is added up

  static __device__ __forceinline__ int Group() { return int(threadIdx.x) / kGroup - 1; }
  static __device__ __forceinline__ int WarpRow() {
    return (int(threadIdx.x) / kWarp - 4) * 16;
  }  // of the block's keys

  // The values of the queries of this thread's elements n and n + 1.
  __device__ __forceinline__ float4 RowsOf(const float* of_tile, int n) const {
    return *reinterpret_cast<const float4*>(of_tile + 8 * n + 2 * Warp::FirstColumn());
  }
  // Turns scores into probabilities. The tile's queries before number `hidden` do not see the block's first key.
  __device__ __forceinline__ void Probabilities(Scores& c, int hidden) const {
#pragma unroll
    for (int n = 0; n < Z::kQueries / 8; n += 2) {
      float4 lse = RowsOf(s.lse[ring.stage], n);
#pragma unroll
      for (int r = 0; r < 4; r++) {
        c[0][n][r] = Exp2(c[0][n][r] * p.scale_log2 - (r & 1 ? lse.y : lse.x));
        c[0][n + 1][r] = Exp2(c[0][n + 1][r] * p.scale_log2 - (r & 1 ? lse.w : lse.z));
      }
    }
    if (hidden + kKeys <= 1) return;
    hidden += WarpRow() + Warp::FirstRow() - Warp::FirstColumn();
#pragma unroll
    for (int n = 0; n < Z::kQueries / 8; n++)
#pragma unroll
      for (int r = 0; r < 4; r++)
        if (8 * n + (r & 1) < hidden + 8 * (r >> 1)) c[0][n][r] = 0;
  }
  __device__ __forceinline__ void Cotangents(const Scores& c, Scores& ds) const {
#pragma unroll
    for (int n = 0; n < Z::kQueries / 8; n += 2) {
      float4 delta = RowsOf(s.delta[ring.stage], n);
#pragma unroll
      for (int r = 0; r < 4; r++) {
        ds[0][n][r] = c[0][n][r] * (ds[0][n][r] - (r & 1 ? delta.y : delta.x));
        ds[0][n + 1][r] = c[0][n + 1][r] * (ds[0][n + 1][r] - (r & 1 ? delta.w : delta.z));
      }
    }
  }
  static __device__ __forceinline__ void ToOperand(const Scores& c, Operand& a) {
#pragma unroll
    for (int n = 0; n < Z::kQueries / 8; n++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        a[n / 2][n % 2 * 2 + half] = PackPair<T>(c[0][n][2 * half], c[0][n][2 * half + 1]);
  }
  // sum [64, D] += A [64, kQueries] tile [kQueries, D].
  static __device__ __forceinline__ void AddProducts(Sums& sum, const Operand& a, const typename Z::QueryTile& tile) {
    uint64_t b = TileDescriptor(tile.data, Z::kQueries * Warp::kRowBytes);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < Z::kQueries / 16; k++) AddProduct<T>(sum, a[k], b + DescriptorStep(k * 16 * Warp::kRowBytes));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  __device__ __forceinline__ void Release(uint64_t* barrier) const {
    if (lane == 0) Arrive(barrier);
  }

  // Where this warpgroup's share of dq is added up: 64 queries of a tile, or 64 columns.
  __device__ __forceinline__ float* ShareOf(int b, int head, int query) const {
    int64_t row = ((int64_t(b) * p.z.H + head) * p.z.PaddedT() + query) / kBlock;
    return p.query_sums + (row * Z::kPanels + Group()) * (kBlock * kBlock) + int(threadIdx.x) % kGroup * 4;
  }
  // Begins the share of dq of the tile whose cotangents are in this stage.
  __device__ __forceinline__ void BeginQueries(int stage, uint32_t parity, const typename Z::KeyTile& k_tile,
                                               float (&dq)[1][8][4]) const {
    Await(&s.ds_full[stage], parity);  // both warpgroups' cotangents are there
    int row = Group() * kBlock;
    Warp::template MultiplyLeftTransposed<kKeys>(typename Z::ScoreTile{s.ds[stage]}, Z::kQueryPanels > 1 ? row : 0,
                                                 k_tile, Z::kPanels > 1 ? row : 0, dq);
  }
  __device__ __forceinline__ void AddQueries(int stage, const float (&dq)[1][8][4]) const {
    Release(&s.ds_empty[stage]);
#pragma unroll
    for (int n = 0; n < 8; n++) AddFour(share + n * (4 * kGroup), dq[0][n]);
  }
  // Puts the cotangents of this warp's keys into shared memory.
  __device__ __forceinline__ void PutCotangents(const Operand& ds) const {
    int stage = ring.stage;
    Await(&s.ds_empty[stage], ring.parity ^ 1);
    uint16_t* to = s.ds[stage] + WarpRow() * kPanel;
#pragma unroll
    for (int k = 0; k < Z::kQueries / 16; k++) StoreFragment(to + k / 4 * (kKeys * kPanel), lane, k % 4 * 2, ds[k]);
    PublishShared();
    __syncwarp();
    Release(&s.ds_full[stage]);
  }

  // One tile of queries, and dq of the one before, so that neither warpgroup waits for the other's cotangents.
  template <bool kFirst>
  __device__ __forceinline__ void Step(int hidden, float* next_share, const typename Z::KeyTile& k_tile,
                                       const typename Z::KeyTile& v_tile, Sums& dk, Sums& dv) {
    asm volatile("" : "+r"(lane));  // what depends on it is computed in each step, as registers are scarce
    Warp with(nullptr);
    int stage = ring.stage, before = stage == 0 ? Z::kStages - 1 : stage - 1, row = Group() * kBlock;
    typename Z::QueryTile q_tile{s.q[stage]}, dout_tile{s.dout[stage]};
    Scores c, ds;  // [64, kQueries]
    Operand of_p, of_ds;
    Await(&s.q_full[stage], ring.parity);
    with.template MultiplyTransposed<Z::D>(k_tile, row, q_tile, c);
    Await(&s.dout_full[stage], ring.parity);
    with.template MultiplyTransposed<Z::D>(v_tile, row, dout_tile, ds);
    Warp::template Wait<1>(c);
    Probabilities(c, hidden);
    ToOperand(c, of_p);
    if constexpr (!Z::kTogether) AddProducts(dv, of_p, dout_tile);
    Warp::template Wait<Z::kTogether ? 0 : 1>(ds);
    Cotangents(c, ds);
    ToOperand(ds, of_ds);
    PutCotangents(of_ds);
    float dq[1][8][4];  // [64, 64]
    if constexpr (!kFirst) BeginQueries(before, stage == 0 ? ring.parity ^ 1 : ring.parity, k_tile, dq);
    if constexpr (Z::kTogether) AddProducts(dv, of_p, dout_tile);
    AddProducts(dk, of_ds, q_tile);
    if constexpr (!kFirst) {
      Warp::template Wait<Z::kTogether ? 2 : 1>(dq);
      AddQueries(before, dq);
    }
    share = next_share;
    Warp::template Wait<0>(dk, dv);
    Release(&s.empty[stage]);
    ring.Advance();
  }
  // All steps of an item.
  __device__ __forceinline__ void Walk(const Item<Z>& item, const typename Z::KeyTile& k_tile,
                                       const typename Z::KeyTile& v_tile, Sums& dk, Sums& dv) {
    int first = item.first_tile * Z::kQueries, tiles = item.end_tile - item.first_tile, tile = 0;
    int hidden = item.key - p.z.shift - first;
    float* of_head = ShareOf(item.b, item.head, first);
    Step<true>(hidden, of_head, k_tile, v_tile, dk, dv);
    for (int heads = item.end_head - item.head;;) {
      if (++tile == tiles) {
        if (--heads == 0) break;
        tile = 0, of_head += int64_t(p.z.PaddedT()) * Z::D;
      }
      Step<false>(hidden - tile * Z::kQueries, of_head + tile * (Z::kQueries * Z::D), k_tile, v_tile, dk, dv);
    }
    float dq[1][8][4];  // [64, 64], of the last step
    int before = ring.stage == 0 ? Z::kStages - 1 : ring.stage - 1;
    BeginQueries(before, ring.stage == 0 ? ring.parity ^ 1 : ring.parity, k_tile, dq);
    Warp::template Wait<0>(dk, dv, dq);
    AddQueries(before, dq);
  }

  __device__ __forceinline__ void Store(const Item<Z>& item, const Sums& dk, const Sums& dv) const {
    int first = item.key + Group() * kBlock, rows = p.z.S - first;
    if (p.parts > 1) {
      if (!item.has_work()) return;
      int64_t row = (int64_t(item.b) * p.z.G + item.g) * (p.tiles * (kKeys / kBlock)) + first / kBlock;
      int64_t at = row * Z::kPanels * (kBlock * kBlock) + int(threadIdx.x) % kGroup * 4;
#pragma unroll
      for (int n = 0; n < Z::D / 8; n++) {
        AddFour(p.key_sums + at + n * (4 * kGroup), dk[0][n]);
        AddFour(p.value_sums + at + n * (4 * kGroup), dv[0][n]);
      }
      return;
    }
    uint16_t *to_k = p.dk.At<uint16_t>(item.b, first, item.g), *to_v = p.dv.At<uint16_t>(item.b, first, item.g);
#pragma unroll
    for (int panel = 0; panel < Z::kPanels; panel++) {
      StoreBlock<T>(dk[0] + 8 * panel, float(p.z.scale), to_k + panel * kPanel, p.dk.row, rows);
      StoreBlock<T>(dv[0] + 8 * panel, 1, to_v + panel * kPanel, p.dv.row, rows);
    }
  }

  __device__ void Run() {
    for (;; keys.Advance()) {
      Await(&s.keys_full[keys.stage], keys.parity);
      int number = s.item[keys.stage];
      if (number < 0) return;
      Item<Z> item(p, number);
      typename Z::KeyTile k_tile{s.k[keys.stage]}, v_tile{s.v[keys.stage]};
      Sums dk = {}, dv = {};  // [64, D]
      if (item.has_work()) Walk(item, k_tile, v_tile, dk, dv);
      Release(&s.keys_empty[keys.stage]);
      Store(item, dk, dv);
    }
  }
};

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

template <class Z>
__global__ void __launch_bounds__(kThreads, 1)
    OnePass(const __grid_constant__ Maps maps, const __grid_constant__ Problem p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  PassMemory<Z>& s = *reinterpret_cast<PassMemory<Z>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Z::kStages; i++)
      InitBarrier(&s.q_full[i], 1), InitBarrier(&s.dout_full[i], 1), InitBarrier(&s.empty[i], kWarps),
          InitBarrier(&s.ds_full[i], kWarps), InitBarrier(&s.ds_empty[i], kWarps);
    for (int i = 0; i < Z::kKeyStages; i++) InitBarrier(&s.keys_full[i], 1), InitBarrier(&s.keys_empty[i], kWarps);
    PublishBarriers();
  }
  __syncthreads();
  if (threadIdx.x < kGroup) {
    LowerRegisters<24>();
    if (threadIdx.x == 0) Loader<Z>{s, maps, p}.Run();
  } else {
    RaiseRegisters<240>();
    Computer<Z>{s, p, Lane()}.Run();
  }
}

// Fills 64 of the rows of SdpaRows, 8 in each warp, and sets a share of `count` sums to 0, and the counter.
template <class Z>
__global__ void __launch_bounds__(kPrepare) Prepare(SdpaSizes z, SdpaOperand out, SdpaOperand lse, SdpaOperand dout,
                                                    SdpaRows<float> rows, float* sums, int64_t count, int* counter) {
  constexpr int kLanes = Z::D / 8, kTogether = kWarp / kLanes, kTurns = 8 / kTogether;  // lanes of a row
  int head = int(blockIdx.x) % z.H, chunks = z.PaddedT() / kBlock, chunk = int(blockIdx.x) / z.H % chunks;
  int b = int(blockIdx.x) / z.H / chunks, lane = Lane(), column = lane % kLanes * 8;
  int first = chunk * kBlock + int(threadIdx.x) / kWarp * 8 + lane / kLanes;
  uint4 o[kTurns], d[kTurns];
#pragma unroll
  for (int i = 0; i < kTurns; i++) {
    int query = min(first + i * kTogether, z.T - 1);
    o[i] = *reinterpret_cast<const uint4*>(out.At<uint16_t>(b, query, head) + column);
    d[i] = *reinterpret_cast<const uint4*>(dout.At<uint16_t>(b, query, head) + column);
  }
  int64_t at = (int64_t(blockIdx.x) * kPrepare + threadIdx.x) * 4, step = int64_t(gridDim.x) * kPrepare * 4;
  for (; at < count; at += step) *reinterpret_cast<float4*>(sums + at) = {};
  if (blockIdx.x == 0 && threadIdx.x == 0) *counter = 0;
#pragma unroll
  for (int i = 0; i < kTurns; i++) {
    int query = first + i * kTogether;
    float delta = DotOf<typename Z::T>(o[i], d[i]);
#pragma unroll
    for (int lanes = 1; lanes < kLanes; lanes *= 2) delta += __shfl_xor_sync(~0u, delta, lanes);
    if (column == 0) PutRow(z, lse, rows, b, head, query, delta);
  }
}

// The sums of one operand [B, heads, rows, D], and the tensor that they are rounded to.
struct Rounding {
  const float* sums;
  float scale;
  SdpaOperand out;
  int heads, rows, row_blocks;
  int64_t blocks;  // of 64 rows and columns

  Rounding(const float* from, double factor, const TensorView& to, int blocks_of_head)
      : sums(from),
        scale(float(factor)),
        out(OperandOf(to)),
        heads(int(to.dim(2).extent)),
        rows(int(to.dim(1).extent)),
        row_blocks(blocks_of_head),
        blocks(to.dim(0).extent * heads * row_blocks * (to.dim(3).extent / kPanel)) {}
};
struct Roundings {
  Rounding dq, dk, dv;
};

template <class Z>
__global__ void __launch_bounds__(kGroup) RoundSums(const __grid_constant__ Roundings all) {
  const Rounding& r = blockIdx.y == 0 ? all.dq : blockIdx.y == 1 ? all.dk : all.dv;
  int panel = int(blockIdx.x) % Z::kPanels, at = int(blockIdx.x) / Z::kPanels, row = at % r.row_blocks * kBlock;
  int head = at / r.row_blocks % r.heads, b = at / r.row_blocks / r.heads;
  if (blockIdx.x >= r.blocks || row >= r.rows) return;
  const float* from = r.sums + int64_t(blockIdx.x) * (kBlock * kBlock) + int(threadIdx.x) * 4;
  float c[8][4];
#pragma unroll
  for (int n = 0; n < 8; n++) {
    float4 x = *reinterpret_cast<const float4*>(from + n * (4 * kGroup));
    c[n][0] = x.x, c[n][1] = x.y, c[n][2] = x.z, c[n][3] = x.w;
  }
  StoreBlock<typename Z::T>(c, r.scale, r.out.At<uint16_t>(b, row, head) + panel * kPanel, r.out.row, r.rows - row);
}

// Describes q, k, v or dout [B, rows, heads, D] in boxes of `rows` rows and 64 columns of a head.
CUtensorMap MapOf(const TensorView& x, int rows) {
  const SdpaOperand at = OperandOf(x);
  return TensorMapOf(x.data, std::array{x.dim(3).extent, x.dim(1).extent, x.dim(2).extent, x.dim(0).extent},
                     std::array{at.row, at.head, at.batch}, std::array{kPanel, rows, 1, 1});
}

template <class Z>
Problem ProblemOf(const KernelCall& call, const SdpaOnePass& cut) {
  char* workspace = static_cast<char*>(call.workspace);
  auto floats = [&](size_t at) { return reinterpret_cast<float*>(workspace + at); };
  SdpaSizes z(call);
  return {.z = z,
          .parts = cut.parts,
          .tiles = cut.tiles,
          .section = cut.section,
          .items = cut.items,
          .scale_log2 = float(z.scale * kLog2E),
          .rows = {floats(0), floats(0) + int64_t(z.B) * z.H * z.PaddedT()},
          .counter = reinterpret_cast<int*>(workspace + cut.counter),
          .query_sums = floats(cut.query_sums),
          .key_sums = floats(cut.key_sums),
          .value_sums = floats(cut.value_sums),
          .dk = OperandOf(call.out[1]),
          .dv = OperandOf(call.out[2])};
}

template <class Z>
void Run(const KernelCall& call, const SdpaOnePass& cut) {
  cudaStream_t stream = DeviceOf(call).stream();
  Problem p = ProblemOf<Z>(call, cut);
  int64_t rows = int64_t(p.z.B) * p.z.H * p.z.PaddedT(), sums = int64_t((cut.bytes - cut.query_sums) / sizeof(float));
  Prepare<Z><<<unsigned(rows / kBlock), kPrepare, 0, stream>>>(
      p.z, OperandOf(call.in[3]), OperandOf(call.in[4]), OperandOf(call.in[5]), p.rows, p.query_sums, sums, p.counter);
  WEFT_CUDA_LAUNCHED("sdpa_grad: rows");
  Maps maps{MapOf(call.in[0], Z::kQueries), MapOf(call.in[1], kKeys), MapOf(call.in[2], kKeys),
            MapOf(call.in[5], Z::kQueries)};
  constexpr int kBytes = int(sizeof(PassMemory<Z>));
  WEFT_CUDA(cudaFuncSetAttribute(OnePass<Z>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  int blocks = std::min(cut.items, DeviceOf(call).multiprocessors()), of_keys = cut.tiles * (kKeys / kBlock);
  OnePass<Z><<<unsigned(blocks), kThreads, kBytes, stream>>>(maps, p);
  WEFT_CUDA_LAUNCHED("sdpa_grad: one pass");
  Roundings all{.dq = {p.query_sums, p.z.scale, call.out[0], p.z.PaddedT() / kBlock},
                .dk = {p.key_sums, p.z.scale, call.out[1], of_keys},
                .dv = {p.value_sums, 1, call.out[2], of_keys}};
  RoundSums<Z>
      <<<dim3(unsigned(std::max(all.dq.blocks, all.dk.blocks)), cut.parts > 1 ? 3 : 1), kGroup, 0, stream>>>(all);
  WEFT_CUDA_LAUNCHED("sdpa_grad: round sums");
}

template <HalfFloat T>
void RunAs(const KernelCall& call, const SdpaOnePass& cut) {
  call.in[0].dim(3).extent == 64 ? Run<PassShape<T, 64>>(call, cut) : Run<PassShape<T, 128>>(call, cut);
}

}  // namespace

bool GradSdpaInOnePass(const KernelCall& call) {
  if constexpr (kWarpgroups) {
    SdpaOnePass cut(call);
    if (!cut.takes || DeviceOf(call).capability() != 90) return false;
    call.in[0].dtype == DType::kBF16 ? RunAs<BF16>(call, cut) : RunAs<F16>(call, cut);
    return true;
  }
  return false;
}

}  // namespace weft::cuda
