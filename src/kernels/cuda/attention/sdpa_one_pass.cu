// The gradient of attention in one pass over the scores (Dao 2023; Shah et al. 2024), for 16-bit floats and heads of 64
// and 128 columns. A block has 128 keys and walks the queries that see them:
//
//   S^T = K Q^T, P = exp(S - lse), dP^T = V dO^T, dV += P^T dO, dS = P (dP - delta), dK += dS^T Q, dQ += dS K
//
// One warpgroup copies by tensor maps, two compute 64 keys each. P and dS are in the registers where the products of dV
// and dK take them. dS goes to shared memory too, from which both warpgroups compute a part of dQ, which they add to
// sums in f32: in any order, or, with kernels.deterministic, in that of keys. Blocks are persistent, and with 64
// columns the next keys arrive while these are worked on. The ladder has what was measured
// (tests/bench/ladder/README.md).
#include <array>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/attention/sdpa_one_pass.cuh"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

using namespace one_pass;

constexpr int kPrepare = 256;  // threads

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
  uint32_t turn = 0;  // how many shares of dq have been added, in an order
  int share = 0;      // the block of sums to which that of the latest tile is added, in any order

  static __device__ __forceinline__ int Group() { return int(threadIdx.x) / kGroup - 1; }
  // The first of the block's keys that are this warp's.
  static __device__ __forceinline__ int WarpRow() { return (int(threadIdx.x) / kWarp - 4) * 16; }

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
  // Sets the cotangents of keys that do not exist to 0. Their scores are 0, which may be so much more than those of
  // real keys that these cotangents are not finite.
  __device__ __forceinline__ void HideAbsentKeys(Operand& ds) const {
    int left = s.left[keys.stage] - WarpRow() - Warp::FirstRow();
#pragma unroll
    for (int k = 0; k < Z::kQueries / 16; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (8 * (i & 1) >= left) ds[k][i] = 0;
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

  // The block of sums of this warpgroup's share of dq: 64 queries of a tile, or 64 columns.
  __device__ __forceinline__ int ShareOf(int b, int head, int query) const {
    return ((b * p.z.H + head) * (p.z.PaddedT() / kBlock) + query / kBlock) * Z::kPanels + Group();
  }
  // Begins the share of dq of the tile whose cotangents are in this stage.
  __device__ __forceinline__ void BeginQueries(int stage, uint32_t parity, const typename Z::KeyTile& k_tile,
                                               float (&dq)[1][8][4]) const {
    Await(&s.ds_full[stage], parity);  // both warpgroups' cotangents are there
    int row = Group() * kBlock;
    Warp::template MultiplyLeftTransposed<kKeys>(typename Z::ScoreTile{s.ds[stage]}, Z::kQueryPanels > 1 ? row : 0,
                                                 k_tile, Z::kPanels > 1 ? row : 0, dq);
  }
  // Adds this warpgroup's share of a tile's dq, whose cotangents are in this stage.
  __device__ __forceinline__ void AddQueries(int stage, float (&dq)[1][8][4]) {
    Release(&s.ds_empty[stage]);
    if constexpr (Z::kOrdered)
      AddInTurn(dq);
    else
      AddFours(p.query_sums + int64_t(share) * (kBlock * kBlock) + int(threadIdx.x) % kGroup * 4, dq[0]);
  }
  // The first block stores its share, the last one rounds the sum.
  __device__ __forceinline__ void AddInTurn(float (&dq)[1][8][4]) {
    Await(&s.turn[Group()][turn & 1], turn >> 1 & 1);
    const Turn& t = s.turn_of[Group()][turn & 1];
    float* sums = t.sums + int(threadIdx.x) % kGroup * 4;
    if (!t.dq) {
      t.has_sums ? AddFours(sums, dq[0]) : StoreFours(sums, dq[0]);
    } else {
      if (t.has_sums) AddSums(sums, dq[0]);
      StoreBlock<T>(dq[0], float(p.z.scale), t.dq, p.dq.row, t.rows);
    }
    __syncwarp();
    Release(&s.added[Group()][turn & 1]);
    turn++;
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
  __device__ __forceinline__ void Step(int hidden, int next_share, const typename Z::KeyTile& k_tile,
                                       const typename Z::KeyTile& v_tile, Sums& dk, Sums& dv) {
    asm volatile("" : "+r"(lane));  // what depends on it is computed in each step, as registers are scarce
    Warp with{};
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
    if (s.left[keys.stage] < kKeys) HideAbsentKeys(of_ds);
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
    constexpr int kStep = Z::kOrdered ? -Z::kQueries : Z::kQueries;
    int first = item.TileOf(0) * Z::kQueries, hidden = item.key - p.z.shift - first, i = 0;
    int of_head = ShareOf(item.b, item.head, first);
    Step<true>(hidden, of_head, k_tile, v_tile, dk, dv);
    for (int heads = item.end_head - item.head;;) {
      if (++i == item.tiles) {
        if (--heads == 0) break;
        i = 0, of_head += p.z.PaddedT() / kBlock * Z::kPanels;
      }
      Step<false>(hidden - i * kStep, of_head + 2 * i, k_tile, v_tile, dk, dv);
    }
    float dq[1][8][4];  // [64, 64], of the last step
    int before = ring.stage == 0 ? Z::kStages - 1 : ring.stage - 1;
    BeginQueries(before, ring.stage == 0 ? ring.parity ^ 1 : ring.parity, k_tile, dq);
    Warp::template Wait<0>(dk, dv, dq);
    AddQueries(before, dq);
  }

  // Sums with an order are kept for each part.
  __device__ __forceinline__ void AddParts(const Item<Z>& item, int first, const Sums& dk, const Sums& dv) const {
    int64_t head = (int64_t(Z::kOrdered ? item.part : 0) * p.z.B + item.b) * p.z.G + item.g;
    int64_t row = head * (p.tiles * (kKeys / kBlock)) + first / kBlock;
    int64_t at = row * Z::kPanels * (kBlock * kBlock) + int(threadIdx.x) % kGroup * 4;
#pragma unroll
    for (int panel = 0; panel < Z::kPanels; panel++, at += kBlock * kBlock) {
      const float(*k)[4] = dk[0] + 8 * panel, (*v)[4] = dv[0] + 8 * panel;
      Z::kOrdered ? StoreFours(p.key_sums + at, k) : AddFours(p.key_sums + at, k);
      Z::kOrdered ? StoreFours(p.value_sums + at, v) : AddFours(p.value_sums + at, v);
    }
  }
  __device__ __forceinline__ void Store(const Item<Z>& item, const Sums& dk, const Sums& dv) const {
    int first = item.key + Group() * kBlock, rows = p.z.S - first;
    if (p.parts > 1) return AddParts(item, first, dk, dv);
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
      __syncwarp();  // all lanes have read it
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

template <class Z>
__global__ void __launch_bounds__(kThreads, 1)
    OnePass(const __grid_constant__ Maps maps, const __grid_constant__ Problem p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  PassMemory<Z>& s = *reinterpret_cast<PassMemory<Z>*>(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Z::kStages; i++)
      InitBarrier(&s.q_full[i], 1), InitBarrier(&s.dout_full[i], 1), InitBarrier(&s.empty[i], kWarps),
          InitBarrier(&s.ds_full[i], kWarps), InitBarrier(&s.ds_empty[i], kWarps);
    for (int i = 0; i < Z::kKeyStages; i++)
      InitBarrier(&s.keys_full[i], 1), InitBarrier(&s.keys_empty[i], Z::kOrdered ? kWarps + 3 : kWarps);
    for (int i = 0; i < 2; i++) {
      InitBarrier(&s.told[i], 1);
      for (int slot = 0; slot < 2; slot++)
        InitBarrier(&s.turn[i][slot], 1), InitBarrier(&s.added[i][slot], kGroup / kWarp);
    }
    PublishBarriers();
  }
  __syncthreads();
  if (threadIdx.x < kGroup) {
    LowerRegisters<24>();
    if (threadIdx.x == 0) Loader<Z>{s, maps, p}.Run();
    if constexpr (Z::kOrdered) {
      if (threadIdx.x == kWarp || threadIdx.x == 2 * kWarp) TurnKeeper<Z>{s, p}.Give(int(threadIdx.x) / kWarp - 1);
      if (threadIdx.x == 3 * kWarp) TurnKeeper<Z>{s, p}.Tell();
    }
  } else {
    RaiseRegisters<240>();
    Computer<Z>{s, p, Lane()}.Run();
  }
}

// Fills 64 of the rows of SdpaRows, 8 in each warp, and sets 16 * zeros bytes to 0: the counters, and sums in any
// order. If sums have an order, no block comes to tiles that see no key, so dq is set here.
template <class Z>
__global__ void __launch_bounds__(kPrepare)
    Prepare(const __grid_constant__ Problem p, SdpaOperand out, SdpaOperand lse, SdpaOperand dout, int64_t zeros) {
  constexpr int kLanes = Z::D / 8, kTogether = kWarp / kLanes, kTurns = 8 / kTogether;  // lanes of a row
  int head = int(blockIdx.x) % p.z.H, chunks = p.z.PaddedT() / kBlock, chunk = int(blockIdx.x) / p.z.H % chunks;
  int b = int(blockIdx.x) / p.z.H / chunks, lane = Lane(), column = lane % kLanes * 8;
  int first = chunk * kBlock + int(threadIdx.x) / kWarp * 8 + lane / kLanes;
  bool is_seen = !Z::kOrdered || p.LastKeyTile(chunk * kBlock / Z::kQueries * Z::kQueries, Z::kQueries) >= 0;
  uint4 o[kTurns], d[kTurns];
#pragma unroll
  for (int i = 0; i < kTurns; i++) {
    int query = min(first + i * kTogether, p.z.T - 1);
    o[i] = *reinterpret_cast<const uint4*>(out.At<uint16_t>(b, query, head) + column);
    d[i] = *reinterpret_cast<const uint4*>(dout.At<uint16_t>(b, query, head) + column);
    if (!is_seen) *reinterpret_cast<uint4*>(p.dq.At<uint16_t>(b, query, head) + column) = {};
  }
  for (int64_t at = blockIdx.x * kPrepare + threadIdx.x; at < zeros; at += int64_t(gridDim.x) * kPrepare)
    reinterpret_cast<int4*>(p.counter)[at] = {};
#pragma unroll
  for (int i = 0; i < kTurns; i++) {
    int query = first + i * kTogether;
    float delta = DotOf<typename Z::T>(o[i], d[i]);
#pragma unroll
    for (int lanes = 1; lanes < kLanes; lanes *= 2) delta += __shfl_xor_sync(~0u, delta, lanes);
    if (column == 0) PutRow(p.z, lse, p.rows, b, head, query, delta);
  }
}

// Sums of [B, heads, rows, D] in one or more parts, and the tensor that they are rounded to.
struct Rounding {
  const float* sums;
  SdpaOperand to;
  float scale;
  int parts, heads, rows, row_blocks, blocks;  // blocks of 64 rows and columns: of a head's rows, and of a part

  Rounding(const Problem& p, const float* from, const TensorView& out, double factor, int num_parts, int padded)
      : sums(from),
        to(OperandOf(out)),
        scale(float(factor)),
        parts(num_parts),
        heads(int(out.dim(2).extent)),
        rows(int(out.dim(1).extent)),
        row_blocks(padded / kBlock),
        blocks(p.z.B * heads * row_blocks * (p.z.D / kPanel)) {}
};
struct Roundings {
  Rounding of[3];
};

// A block of threads takes 64 rows and columns.
template <class Z>
__global__ void __launch_bounds__(kGroup) RoundSums(const __grid_constant__ Roundings all, int first) {
  const Rounding& r = all.of[first + blockIdx.y];
  int block = int(blockIdx.x), panel = block % Z::kPanels, at = block / Z::kPanels, row = at % r.row_blocks * kBlock;
  int head = at / r.row_blocks % r.heads, b = at / r.row_blocks / r.heads;
  if (block >= r.blocks || row >= r.rows) return;
  float c[8][4] = {};
  for (int part = 0; part < r.parts; part++)
    AddSums(r.sums + (int64_t(part) * r.blocks + block) * (kBlock * kBlock) + threadIdx.x * 4, c);
  StoreBlock<typename Z::T>(c, r.scale, r.to.At<uint16_t>(b, row, head) + panel * kPanel, r.to.row, r.rows - row);
}
// Rounds what the blocks of the pass have not: dq in any order, and dk and dv in parts.
template <class Z>
void Round(const KernelCall& call, const Problem& p) {
  int parts = Z::kOrdered ? p.parts : 1, keys = p.tiles * kKeys;
  Roundings all{{{p, p.query_sums, call.out[0], p.z.scale, 1, p.z.PaddedT()},
                 {p, p.key_sums, call.out[1], p.z.scale, parts, keys},
                 {p, p.value_sums, call.out[2], 1, parts, keys}}};
  int first = Z::kOrdered ? 1 : 0, end = p.parts > 1 ? 3 : 1;
  if (first == end) return;
  int blocks = std::max(first == 0 ? all.of[0].blocks : 0, end == 3 ? all.of[1].blocks : 0);
  RoundSums<Z><<<dim3(unsigned(blocks), unsigned(end - first)), kGroup, 0, DeviceOf(call).stream()>>>(all, first);
  WEFT_CUDA_LAUNCHED("sdpa_grad: round sums");
}

// Describes q, k, v and dout [B, rows, heads, D] in boxes of a tile's rows and 64 columns of a head.
template <class Z>
Maps MapsOf(const KernelCall& call) {
  auto map = [](const TensorView& x, int rows) {
    SdpaOperand at = OperandOf(x);
    return TensorMapOf(x.data, std::array{x.dim(3).extent, x.dim(1).extent, x.dim(2).extent, x.dim(0).extent},
                       std::array{at.row, at.head, at.batch}, std::array{kPanel, rows, 1, 1});
  };
  return {map(call.in[0], Z::kQueries), map(call.in[1], kKeys), map(call.in[2], kKeys), map(call.in[5], Z::kQueries)};
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
          .added = reinterpret_cast<int*>(workspace + cut.added),
          .query_sums = floats(cut.query_sums),
          .key_sums = floats(cut.key_sums),
          .value_sums = floats(cut.value_sums),
          .dq = OperandOf(call.out[0]),
          .dk = OperandOf(call.out[1]),
          .dv = OperandOf(call.out[2])};
}

template <class Z>
void Run(const KernelCall& call, const SdpaOnePass& cut) {
  cudaStream_t stream = DeviceOf(call).stream();
  Problem p = ProblemOf<Z>(call, cut);
  int64_t rows = int64_t(p.z.B) * p.z.H * p.z.PaddedT();
  Prepare<Z><<<unsigned(rows / kBlock), kPrepare, 0, stream>>>(
      p, OperandOf(call.in[3]), OperandOf(call.in[4]), OperandOf(call.in[5]), int64_t(cut.zeros / sizeof(int4)));
  WEFT_CUDA_LAUNCHED("sdpa_grad: rows");
  constexpr int kBytes = int(sizeof(PassMemory<Z>));
  WEFT_CUDA(cudaFuncSetAttribute(OnePass<Z>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  int blocks = std::min(cut.items, DeviceOf(call).multiprocessors());
  OnePass<Z><<<unsigned(blocks), kThreads, kBytes, stream>>>(MapsOf<Z>(call), p);
  WEFT_CUDA_LAUNCHED("sdpa_grad: one pass");
  Round<Z>(call, p);
}

template <HalfFloat T, bool kOrdered>
void RunAs(const KernelCall& call, const SdpaOnePass& cut) {
  call.in[0].dim(3).extent == 64 ? Run<PassShape<T, 64, kOrdered>>(call, cut)
                                 : Run<PassShape<T, 128, kOrdered>>(call, cut);
}
template <HalfFloat T>
void RunAs(const KernelCall& call, const SdpaOnePass& cut) {
  cut.ordered ? RunAs<T, true>(call, cut) : RunAs<T, false>(call, cut);
}

}  // namespace

bool RunsInOnePass(const KernelCall& call) {
  return kWarpgroups && SdpaOnePass(call).takes && DeviceOf(call).capability() == 90;
}
void GradSdpaInOnePass(const KernelCall& call) {
  if constexpr (kWarpgroups) {
    SdpaOnePass cut(call);
    call.in[0].dtype == DType::kBF16 ? RunAs<BF16>(call, cut) : RunAs<F16>(call, cut);
  }
}

}  // namespace weft::cuda
