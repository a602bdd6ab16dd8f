// Products of a Llama MLP with SwiGLU in the epilogue, for swiglu.cu, and SwiGLU as kernels of its own.
//   forward:  gate = x Wg, up = x Wu, act = silu(gate) up    with Wg, Wu [K, F]
//   backward: da = dy Wd^T, dgate = da up silu'(gate), dup = da silu(gate)    with Wd [F, K]; da is not stored
// A block computes 128 rows of 256 sums: 128 columns of gate and of up, or 256 columns of da. One warpgroup copies
// tiles of 64 terms into a ring of stages, and may be stages ahead. Two warpgroups multiply 64 rows each. Blocks are
// persistent, and may be pairs: the blocks of a pair have the same columns, so each copies half of B's tile for both.
// Legend: M rows, K terms of a sum, F columns of a result.
#pragma once
#include "../hopper.h"

namespace swiglu {

using bf16 = __nv_bfloat16;
constexpr int kThreads = 384, kStages = 4, kRows = 128, kTerms = 64, kPanel = 64, kWarpRows = 16, kWarps = 8;
constexpr int kRowTiles = 16;  // a group of rows that the blocks work on together, so that L2 serves both operands

// ---- SwiGLU of two elements at once, packed as bf16 ----

__device__ inline float Low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float High(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ inline float Sigmoid(float x) { return hopper::Reciprocal(1.f + hopper::Exp2(x * -1.4426950408889634f)); }
__device__ inline uint32_t Act(uint32_t gate, uint32_t up) {
  const float a = Low(gate), b = High(gate);
  return hopper::Pack(a * Sigmoid(a) * Low(up), b * Sigmoid(b) * High(up));
}
__device__ inline float2 Gradients(float da, float gate, float up) {
  const float s = Sigmoid(gate);
  return {da * up * s * (1.f + gate * (1.f - s)), da * gate * s};
}
// Returns dgate and dup.
__device__ inline uint2 Gradients(uint32_t da, uint32_t gate, uint32_t up) {
  const float2 low = Gradients(Low(da), Low(gate), Low(up)), high = Gradients(High(da), High(gate), High(up));
  return {hopper::Pack(low.x, high.x), hopper::Pack(low.y, high.y)};
}

// ---- the fused kernel ----

struct Problem {
  int terms, tiles_down, tiles_across;  // K, and the tiles of blocks or pairs of blocks
  int4* report;                         // where a wait that fails says which it was
};

struct Maps {
  CUtensorMap a, b[2];  // x and Wg, Wu; or dy and Wd
  CUtensorMap in[2];    // backward: gate, up
  CUtensorMap out[3];   // gate, up, act; or dgate, dup; or da
};

struct Memory {
  alignas(1024) bf16 a[kStages][kRows][kTerms];
  // Forward: panels [64 terms][64 columns], two of gate and two of up. Backward: [256 columns][64 terms].
  alignas(1024) bf16 b[kStages][4][64][64];
  alignas(1024) bf16 out[kWarps][2][kWarpRows][kPanel];
  uint64_t full[kStages], empty[kStages];
};

struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void Advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// The first row and column of a tile, of this block.
template <bool kForward, int kCluster>
__device__ inline int2 Origin(const Problem& p, int tile, int rank) {
  constexpr int kDown = kRowTiles / kCluster;
  const int group = tile / (kDown * p.tiles_across), inside = tile % (kDown * p.tiles_across);
  const int down = group * kDown + inside % kDown;
  return {(down * kCluster + rank) * kRows, inside / kDown * (kForward ? 128 : 256)};
}

// Copies a tile of B, or in a pair the part of it that this block copies for both.
template <bool kForward, int kCluster>
__device__ inline void CopyB(Memory& s, const Maps& maps, int stage, int rank, int column, int term) {
  const auto copy = [&](int panel, const CUtensorMap* map, int x, int y) {
    if constexpr (kCluster == 1)
      hopper::CopyTile(s.b[stage][panel], map, &s.full[stage], x, y);
    else
      hopper::MulticastTile(s.b[stage][panel], map, &s.full[stage], x, y, (1 << kCluster) - 1);
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (kCluster > 1 && half != rank) continue;
    if constexpr (kForward) {
      copy(2 * half, &maps.b[half], column, term);
      copy(2 * half + 1, &maps.b[half], column + kPanel, term);
    } else {
      copy(2 * half, &maps.b[0], term, column + 128 * half);
    }
  }
}

template <bool kForward, int kCluster, bool kPlain>
__device__ void Produce(Memory& s, const Maps& maps, const Problem& p, int first, int stride, int rank) {
  constexpr uint32_t kBytesA = sizeof s.a[0], kBytesB = sizeof s.b[0];
  Ring ring;
  const auto begin = [&](uint32_t bytes, int tile, int step) {
    hopper::WaitOrFail(&s.empty[ring.stage], ring.parity ^ 1, p.report, {0, int(blockIdx.x), tile, step});
    hopper::ArriveExpect(&s.full[ring.stage], bytes);
  };
  for (int tile = first; tile < p.tiles_down * p.tiles_across; tile += stride) {
    const int2 origin = Origin<kForward, kCluster>(p, tile, rank);
    for (int term = 0; term < p.terms; term += kTerms, ring.Advance()) {
      begin(kBytesA + kBytesB, tile, term);
      hopper::CopyTile(s.a[ring.stage], &maps.a, &s.full[ring.stage], term, origin.x);
      CopyB<kForward, kCluster>(s, maps, ring.stage, rank, origin.y, term);
    }
    if constexpr (!kForward && !kPlain)  // gate and up follow the operands, 64 columns per stage
      for (int c = 0; c < 256; c += kPanel, ring.Advance()) {
        begin(2 * kBytesA, tile, p.terms + c);
        hopper::CopyTile(s.a[ring.stage], &maps.in[0], &s.full[ring.stage], origin.y + c, origin.x);
        hopper::CopyTile(s.b[ring.stage], &maps.in[1], &s.full[ring.stage], origin.y + c, origin.x);
      }
  }
}

// One of the eight warps that multiply. With kLead the second warpgroup begins each tile that many steps after the
// first, so that one multiplies while the other is in its epilogue. The lead is less than the stages. `d` holds 64 rows
// of 256 sums for its warpgroup: register 4 j + 2 h + e of a lane is row 16 * warp + lane / 4 + 8 h, column 8 j + 2
// (lane % 4) + e.
template <bool kForward, int kCluster, int kLead>
struct Consumer {
  static_assert(kLead < kStages);
  Memory& s;
  const Maps& maps;
  const Problem& p;
  int warp, lane;  // of the eight
  Ring ring = {};
  int slot = 0;

  __device__ void Wait(int tile, int step) {
    hopper::WaitOrFail(&s.full[ring.stage], ring.parity, p.report, {1 + warp, int(blockIdx.x), tile, step});
  }
  // Lets every block that copies into this stage of this block fill it again.
  __device__ void Release(int stage) {
    if constexpr (kCluster == 1) {
      if (lane == 0) hopper::Arrive(&s.empty[stage]);
    } else {
      if (lane < kCluster) hopper::ArriveAt(&s.empty[stage], uint32_t(lane));
    }
  }

  // d = A B, with at most two steps in flight. A stage is free when the step after it has begun.
  __device__ void Multiply(float (&d)[128], int tile) {
    constexpr uint64_t kStepA = 16 * 2 >> 4, kStepB = (kForward ? 16 * 128 : 16 * 2) >> 4;
    int previous = 0;
    if (kLead > 0 && warp >= kWarps / 2) hopper::WaitNamed(1, kWarps * 32);
    for (int term = 0; term < p.terms; term += kTerms) {
      Wait(tile, term);
      const uint64_t a = hopper::Descriptor(&s.a[ring.stage][warp / 4 * 64], 16, 1024);
      const uint64_t b = hopper::Descriptor(s.b[ring.stage], kForward ? sizeof s.b[0][0] : 16, 1024);
      hopper::Fence();
#pragma unroll
      for (int i = 0; i < kTerms / 16; ++i)
        hopper::ProductSS<256, kForward>(d, a + i * kStepA, b + i * kStepB, term + i);
      hopper::Commit();
      if (kLead > 0 && warp < kWarps / 2 && term == kLead * kTerms) hopper::ArriveNamed(1, kWarps * 32);
      hopper::WaitProducts<1>();
      if (term > 0) Release(previous);
      previous = ring.stage;
      ring.Advance();
    }
    hopper::WaitProducts<0>();
    hopper::Pin(d);
    Release(previous);
  }

  // Stores the warp's 16 rows of 64 columns. The two slots are in use in turn.
  __device__ void Send(const CUtensorMap* map, const uint32_t (&v)[16], int2 origin) {
    if (lane == 0) hopper::WaitStoresRead<1>();
    __syncwarp();
    void* to = s.out[warp][slot];
#pragma unroll
    for (int i = 0; i < 4; ++i) hopper::StoreFragment(to, lane, 2 * i, v + 4 * i);
    hopper::FenceShared();
    __syncwarp();
    if (lane == 0) {
      hopper::StoreTile(to, map, origin.y, origin.x + warp * kWarpRows);
      hopper::CommitStores();
    }
    slot ^= 1;
  }

  template <bool kPlain>
  __device__ void FinishForward(const float (&d)[128], int2 origin) {
#pragma unroll
    for (int half = 0; half < 2; ++half, origin.y += kPanel) {
      uint32_t gate[16], up[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        gate[i] = hopper::Pack(d[32 * half + 2 * i], d[32 * half + 2 * i + 1]);
        up[i] = hopper::Pack(d[64 + 32 * half + 2 * i], d[64 + 32 * half + 2 * i + 1]);
      }
      Send(&maps.out[0], gate, origin);
      Send(&maps.out[1], up, origin);
      if constexpr (!kPlain) {
#pragma unroll
        for (int i = 0; i < 16; ++i) gate[i] = Act(gate[i], up[i]);
        Send(&maps.out[2], gate, origin);
      }
    }
  }

  template <bool kPlain>
  __device__ void FinishBackward(const float (&d)[128], int2 origin, int tile) {
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter, origin.y += kPanel) {
      uint32_t grad[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) grad[i] = hopper::Pack(d[32 * quarter + 2 * i], d[32 * quarter + 2 * i + 1]);
      if constexpr (!kPlain) {
        uint32_t grad_up[16];
        Wait(tile, p.terms + quarter * kPanel);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          uint32_t gate[4], up[4];
          hopper::LoadFragment(gate, s.a[ring.stage][warp * kWarpRows], lane, 2 * i);
          hopper::LoadFragment(up, s.b[ring.stage][0][0] + warp * kWarpRows * kPanel, lane, 2 * i);
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const uint2 both = Gradients(grad[4 * i + r], gate[r], up[r]);
            grad[4 * i + r] = both.x, grad_up[4 * i + r] = both.y;
          }
          __syncwarp();  // without it ptxas works on all fragments at once, and has too few registers
        }
        Release(ring.stage);
        ring.Advance();
        Send(&maps.out[1], grad_up, origin);
      }
      Send(&maps.out[0], grad, origin);
    }
  }
};

template <bool kForward, int kCluster, bool kPlain, int kLead>
__device__ void Consume(Memory& s, const Maps& maps, const Problem& p, int first, int stride, int rank) {
  Consumer<kForward, kCluster, kLead> me{s, maps, p, int(threadIdx.x) / 32 - 4, int(threadIdx.x) % 32};
  for (int tile = first; tile < p.tiles_down * p.tiles_across; tile += stride) {
    float d[128];
    me.Multiply(d, tile);
    const int2 origin = Origin<kForward, kCluster>(p, tile, rank);
    if constexpr (kForward)
      me.template FinishForward<kPlain>(d, origin);
    else
      me.template FinishBackward<kPlain>(d, origin, tile);
  }
  if (me.lane == 0) hopper::WaitStores();
}

// Ends a warp. The other block of a pair may still signal barriers of this one.
template <int kCluster>
__device__ inline void Leave() {
  __syncwarp();
  if constexpr (kCluster > 1) hopper::SyncCluster();
}

// With kPlain the products are stored as they are: gate and up, or da.
template <bool kForward, int kCluster, bool kPlain, int kLead>
__global__ void __launch_bounds__(kThreads, 1) Fused(const __grid_constant__ Maps maps, const Problem p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Memory& s = *reinterpret_cast<Memory*>(memory);
  const int rank = kCluster == 1 ? 0 : int(hopper::ClusterRank());
  const int first = blockIdx.x / kCluster, stride = gridDim.x / kCluster;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      hopper::InitBarrier(&s.full[i], 1);
      hopper::InitBarrier(&s.empty[i], kWarps * kCluster);
    }
    hopper::FenceBarrierInit();
  }
  __syncthreads();
  if constexpr (kCluster > 1) hopper::SyncCluster();  // no block may signal barriers of another before they exist
  if (threadIdx.x < 128) {
    hopper::LowerRegisters<24>();
    if (threadIdx.x == 0) Produce<kForward, kCluster, kPlain>(s, maps, p, first, stride, rank);
    Leave<kCluster>();
  } else {
    hopper::RaiseRegisters<240>();
    Consume<kForward, kCluster, kPlain, kLead>(s, maps, p, first, stride, rank);
    Leave<kCluster>();
  }
}

// ---- SwiGLU after products, 8 elements per thread ----

// act [M, F] is contiguous. Rows of gate and up are `stride` elements apart.
__global__ void Forward(const bf16* gate, const bf16* up, bf16* act, uint32_t columns, uint32_t stride,
                        uint32_t vectors) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, across = columns / 8;
  if (i >= vectors) return;
  const size_t from = size_t(i / across) * stride + i % across * 8;
  uint4 g = *reinterpret_cast<const uint4*>(gate + from), u = *reinterpret_cast<const uint4*>(up + from);
  g = {Act(g.x, u.x), Act(g.y, u.y), Act(g.z, u.z), Act(g.w, u.w)};
  reinterpret_cast<uint4*>(act)[i] = g;
}

__global__ void Backward(const uint4* da, const uint4* gate, const uint4* up, uint4* dgate, uint4* dup,
                         uint32_t vectors) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const uint4 d = da[i], g = gate[i], u = up[i];
  const uint2 x = Gradients(d.x, g.x, u.x), y = Gradients(d.y, g.y, u.y), z = Gradients(d.z, g.z, u.z),
              w = Gradients(d.w, g.w, u.w);
  dgate[i] = {x.x, y.x, z.x, w.x};
  dup[i] = {x.y, y.y, z.y, w.y};
}

}  // namespace swiglu
