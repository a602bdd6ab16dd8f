// LinearSwiGluGrad: the gradients of SwiGLU in the epilogue of the product that computes dy, so that dy is not stored,
// and a and b are read while products run. dy [M, N] = x [M, K] w [N, K]^T.
//
// Blocks are persistent, and come in pairs with the same columns, for each of which one block copies w. A block
// computes tiles of 128 rows and 256 columns. One warpgroup copies tiles of 64 terms into a ring of stages, and after
// them the tiles of a and b. Two warpgroups multiply 64 rows each. The ladder has what was measured (`swiglu`).
#include <array>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/tensor_tiles.cuh"
#include "weft/kernels/cuda/plan/linear_swiglu.h"

namespace weft::cuda {
namespace {

constexpr bool kBuilt = WEFT_CUDA_WARPGROUPS;
constexpr int kThreads = 384, kStages = 4, kRows = 128, kColumns = 256, kTerms = 64, kPanel = 64;
constexpr int kWarpRows = 16, kWarps = 8, kPair = 2;
constexpr int kRowTiles = 16;  // of a group of rows that the blocks work on together, so that L2 serves both operands
static_assert(SwiGluTiles::kRows == kRows * kRowTiles && SwiGluTiles::kColumns == kColumns &&
              SwiGluTiles::kTerms == kTerms);

struct Maps {
  CUtensorMap x, w, a, b, da, db;
};
struct Tiles {
  int terms, down, across;  // K, and the tiles of pairs of blocks
};
struct Memory {
  alignas(1024) uint16_t x[kStages][kRows][kTerms];
  alignas(1024) uint16_t w[kStages][kColumns][kTerms];
  alignas(1024) uint16_t out[kWarps][2][kWarpRows][kPanel];
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
__device__ __forceinline__ int2 Origin(const Tiles& p, int tile, int rank) {
  constexpr int kDown = kRowTiles / kPair;
  int group = tile / (kDown * p.across), inside = tile % (kDown * p.across);
  return {((group * kDown + inside % kDown) * kPair + rank) * kRows, inside / kDown * kColumns};
}

__device__ void Load(Memory& s, const Maps& maps, const Tiles& p, int first, int stride, int rank) {
  constexpr uint32_t kBytesX = sizeof s.x[0], kBytesW = sizeof s.w[0];
  constexpr int kHalf = kColumns / kPair;
  Ring ring;
  auto begin = [&](uint32_t bytes) {
    Await(&s.empty[ring.stage], ring.parity ^ 1);
    ArriveExpecting(&s.full[ring.stage], bytes);
  };
  for (int tile = first; tile < p.down * p.across; tile += stride) {
    int2 origin = Origin(p, tile, rank);
    for (int term = 0; term < p.terms; term += kTerms, ring.Advance()) {
      begin(kBytesX + kBytesW);
      uint64_t* full = &s.full[ring.stage];
      LoadTile(s.x[ring.stage], &maps.x, full, term, origin.x);
      LoadTileFor((1 << kPair) - 1, s.w[ring.stage][rank * kHalf], &maps.w, full, term, origin.y + rank * kHalf);
    }
    for (int c = 0; c < kColumns; c += kPanel, ring.Advance()) {  // a and b, 64 columns per stage
      begin(2 * kBytesX);
      LoadTile(s.x[ring.stage], &maps.a, &s.full[ring.stage], origin.y + c, origin.x);
      LoadTile(s.w[ring.stage], &maps.b, &s.full[ring.stage], origin.y + c, origin.x);
    }
  }
}

__device__ __forceinline__ float Low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float High(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ uint32_t Pack(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
// By the approximate exponential and reciprocal, whose errors of 2^-22 are far below those of bf16.
__device__ __forceinline__ float Sigmoid(float x) {
  float e, y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.f + e));
  return y;
}
// Returns da and db.
__device__ __forceinline__ float2 Gradients(float dy, float a, float b) {
  float s = Sigmoid(a);
  return {dy * b * s * (1.f + a * (1.f - s)), dy * a * s};
}

// d [64, 256] (+)= A [64, 16] B [256, 16]^T, both from shared memory. With `adds` 0 it starts from zero.
#define WEFT_D8(i)                                                                                            \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define WEFT_D32(i) WEFT_D8(i), WEFT_D8(i + 8), WEFT_D8(i + 16), WEFT_D8(i + 24)
__device__ __forceinline__ void Multiply(float (&d)[128], uint64_t a, uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"
      "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"
      "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"
      "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
      "%128, %129, p, 1, 1, 0, 0;\n}\n"
      : WEFT_D32(0), WEFT_D32(32), WEFT_D32(64), WEFT_D32(96)
      : "l"(a), "l"(b), "r"(adds));
}
#undef WEFT_D8
#undef WEFT_D32

// A descriptor of rows of 128 bytes with the 128-byte swizzle, in pieces of 8 rows.
__device__ __forceinline__ uint64_t Descriptor(const void* tile) {
  return uint64_t((SharedAddress(tile) & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 |
         uint64_t(1) << 62;
}

// One of the eight warps that multiply. Register 4 j + 2 h + e of `d` in a lane is row 16 * warp + lane / 4 + 8 h,
// column 8 j + 2 (lane % 4) + e, of its warpgroup's 64 rows.
struct Computer {
  Memory& s;
  const Maps& maps;
  const Tiles& p;
  int warp, lane;
  Ring ring = {};
  int slot = 0;

  // Lets both blocks copy into this stage of this block again.
  __device__ void Release(int stage) {
    if (lane < kPair) ArriveAt(&s.empty[stage], uint32_t(lane));
  }

  // d = x w^T, with at most two steps in flight. A stage is free when the step after it has begun.
  __device__ void Product(float (&d)[128]) {
    constexpr uint64_t kStep = 16 * sizeof(uint16_t) >> 4;
    int previous = 0;
    for (int term = 0; term < p.terms; term += kTerms) {
      Await(&s.full[ring.stage], ring.parity);
      uint64_t x = Descriptor(&s.x[ring.stage][warp / 4 * 64]), w = Descriptor(s.w[ring.stage]);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < kTerms / 16; i++) Multiply(d, x + i * kStep, w + i * kStep, term + i);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (term > 0) Release(previous);
      previous = ring.stage;
      ring.Advance();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 128; i++) asm volatile("" : "+f"(d[i])::"memory");  // the products have written them by now
    Release(previous);
  }

  // Stores the warp's 16 rows of 64 columns. The two slots are in use in turn.
  __device__ void Store(const CUtensorMap* map, const uint32_t (&v)[16], int column, int row) {
    if (lane == 0) AwaitStoresRead<1>();
    __syncwarp();
    void* to = s.out[warp][slot];
#pragma unroll
    for (int i = 0; i < 4; i++) StoreFragment(to, lane, 2 * i, v + 4 * i);
    PublishShared();
    __syncwarp();
    if (lane == 0) StoreTile(to, map, column, row + warp * kWarpRows);
    slot ^= 1;
  }

  __device__ void Finish(const float (&d)[128], int2 origin) {
#pragma unroll
    for (int quarter = 0; quarter < kColumns / kPanel; quarter++) {
      uint32_t da[16], db[16];
#pragma unroll
      for (int i = 0; i < 16; i++) da[i] = Pack(d[32 * quarter + 2 * i], d[32 * quarter + 2 * i + 1]);  // dy
      Await(&s.full[ring.stage], ring.parity);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint32_t a[4], b[4];
        LoadFragment(a, s.x[ring.stage][warp * kWarpRows], lane, 2 * i);
        LoadFragment(b, &s.w[ring.stage][0][0] + warp * kWarpRows * kPanel, lane, 2 * i);
#pragma unroll
        for (int r = 0; r < 4; r++) {
          uint32_t dy = da[4 * i + r];
          float2 low = Gradients(Low(dy), Low(a[r]), Low(b[r])), high = Gradients(High(dy), High(a[r]), High(b[r]));
          da[4 * i + r] = Pack(low.x, high.x), db[4 * i + r] = Pack(low.y, high.y);
        }
        __syncwarp();  // without it the compiler works on all fragments at once, and has too few registers
      }
      Release(ring.stage);
      ring.Advance();
      Store(&maps.db, db, origin.y + quarter * kPanel, origin.x);
      Store(&maps.da, da, origin.y + quarter * kPanel, origin.x);
    }
  }
};

__device__ void Compute(Memory& s, const Maps& maps, const Tiles& p, int first, int stride, int rank) {
  Computer me{s, maps, p, int(threadIdx.x) / 32 - 4, int(threadIdx.x) % 32};
  for (int tile = first; tile < p.down * p.across; tile += stride) {
    float d[128];
    me.Product(d);
    me.Finish(d, Origin(p, tile, rank));
  }
  if (me.lane == 0) AwaitStores();
}

// Ends a warp. The other block may still signal barriers of this one.
__device__ __forceinline__ void Leave() {
  __syncwarp();
  SyncCluster();
}

template <bool kReal>
__global__ void __launch_bounds__(kThreads, 1) ProductGradients(const __grid_constant__ Maps maps, const Tiles p) {
  if constexpr (kReal) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Memory& s = *reinterpret_cast<Memory*>(memory);
    int rank = int(ClusterRank()), first = blockIdx.x / kPair, stride = gridDim.x / kPair;
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; i++) InitBarrier(&s.full[i], 1), InitBarrier(&s.empty[i], kWarps * kPair);
      PublishBarriers();
    }
    __syncthreads();
    SyncCluster();  // no block may signal barriers of another before they exist
    if (threadIdx.x < 128) {
      LowerRegisters<40>();
      if (threadIdx.x == 0) Load(s, maps, p, first, stride, rank);
      Leave();
    } else {
      RaiseRegisters<232>();
      Compute(s, maps, p, first, stride, rank);
      Leave();
    }
  }
}

// Describes rows of `columns` elements that lie `ld` apart.
CUtensorMap MapOf(const TensorView& v, int64_t columns, int64_t rows, int64_t ld, int box_columns, int box_rows) {
  return TensorMapOf(v.data, std::array{columns, rows}, std::array{ld}, std::array{box_columns, box_rows});
}

// A launch of the kernel on pairs of blocks.
struct Launch {
  cudaLaunchAttribute pair{};
  cudaLaunchConfig_t config{};

  Launch(int blocks, cudaStream_t stream) {
    pair.id = cudaLaunchAttributeClusterDimension;
    pair.val.clusterDim = {kPair, 1, 1};
    config.gridDim = dim3(uint32_t(blocks)), config.blockDim = kThreads;
    config.dynamicSmemBytes = sizeof(Memory), config.stream = stream;
    config.attrs = &pair, config.numAttrs = 1;
  }
  Launch(const Launch&) = delete;
};

// How many blocks of the kernel a device runs at a time.
struct Residents {
  int blocks = 0;
  explicit Residents(CudaDevice& device) {
    auto kernel = &ProductGradients<kBuilt>;
    WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Memory))));
    Launch pair(kPair, device.stream());
    int clusters = 0;
    WEFT_CUDA(cudaOccupancyMaxActiveClusters(&clusters, kernel, &pair.config));
    blocks = clusters * kPair;
  }
};

void RunFused(const KernelCall& call, const SwiGluTiles& t, int blocks) {
  const TensorView &x = call.in[0], &w = call.in[1], &a = call.in[2], &b = call.in[3];
  Maps maps{.x = MapOf(x, t.terms, t.rows, t.ld_x, kTerms, kRows),
            .w = MapOf(w, t.terms, t.columns, t.ld_w, kTerms, kColumns / kPair),
            .a = MapOf(a, t.columns, t.rows, t.ld_a, kPanel, kRows),
            .b = MapOf(b, t.columns, t.rows, t.ld_b, kPanel, kRows),
            .da = MapOf(call.out[0], t.columns, t.rows, t.ld_da, kPanel, kWarpRows),
            .db = MapOf(call.out[1], t.columns, t.rows, t.ld_db, kPanel, kWarpRows)};
  Tiles tiles{int(t.terms), int(t.rows / kRows / kPair), int(t.columns / kColumns)};
  Launch launch(blocks, DeviceOf(call).stream());
  WEFT_CUDA(cudaLaunchKernelEx(&launch.config, &ProductGradients<kBuilt>, maps, tiles));
}

void LinearSwiGluGrad(const KernelCall& call) {
  SwiGluTiles tiles(call);
  CudaDevice& device = DeviceOf(call);
  if (kBuilt && tiles.fits && device.capability() == 90) {
    if (int blocks = device.Kept<Residents>().blocks; blocks > 0) return RunFused(call, tiles, blocks);
  }
  LinearSwiGluParts parts(call);
  const KernelTable& kernels = call.context->kernels(DeviceKind::kCuda);
  kernels.Row(Op::kEinsum).run(parts.product);
  kernels.Row(Op::kSwiGluGrad).run(parts.gradient);
}

}  // namespace

void AddLinearSwiGluGrad(KernelTable& table) { SetRun(table, Op::kLinearSwiGluGrad, &LinearSwiGluGrad); }

}  // namespace weft::cuda
