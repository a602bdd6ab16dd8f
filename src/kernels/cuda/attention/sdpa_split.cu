// Flash attention, forward, for few queries, as when tokens are generated one at a time (flash-decoding, Dao et al.
// 2023). The keys of a query are split over blocks, because one block per head would keep few multiprocessors busy. A
// block has up to 8 query heads of one KV head, which share what is loaded.
//
// A warp works on several keys at the same time: `lanes` neighbouring lanes hold the columns of one key, 16 bytes each.
// Each such group has a running softmax of its own. Groups are joined within the warp, then warps, then blocks, each in
// a fixed order. The last block to finish joins the blocks, which need no second launch for it.
//
// Only keys that the query sees by its position are read, however large the cache is.
#include "weft/kernels/cuda/attention/sdpa_split.h"

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_rules.cuh"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"

namespace weft::cuda {
namespace {

// Begins to fetch the line of an address to the L2 cache. It reads nothing, so the memory may still be written.
__device__ __forceinline__ void FetchToL2(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kAtOnce = 4;  // keys that a group of lanes loads before it uses the first

struct SplitArgs {
  SdpaSizes z;
  SdpaRules rules;
  SdpaOperand q, k, v, out, lse;
  int chunks, splits;
  float* parts;       // [tiles, splits, rows, D + 2]: sums, then the largest score and the total
  uint32_t* tickets;  // [tiles]
};

// How D columns of T lie in a warp. D is the head size, rounded up.
template <class T, int D_>
struct SplitShape {
  using Element = T;
  static constexpr int D = D_, V = kPack<T>;
  static constexpr int kPacks = D > kWarp* V ? D / (kWarp * V) : 1;  // of a lane
  static constexpr int kLanes = D / (V * kPacks), kGroups = kWarp / kLanes;
  static constexpr int kColumns = kPacks * V;               // of a lane
  static constexpr int kKeys = kWarps * kGroups * kAtOnce;  // of a block in one step
};

// The softmax of some keys for one row: the sum of exp(score - top) v over them, and the total of the factors.
template <int N>
struct SplitSoftmax {
  float sum[N] = {}, top = -INFINITY, total = 0;

  // Returns the factor of sums that are relative to `from`, if they are to be relative to `to`.
  static __device__ __forceinline__ float Factor(float from, float to) {
    return from == -INFINITY ? 0 : ExpOf(from - to);
  }
  __device__ __forceinline__ void Join(const SplitSoftmax& other) {
    float larger = fmaxf(top, other.top), mine = Factor(top, larger), its = Factor(other.top, larger);
#pragma unroll
    for (int n = 0; n < N; n++) sum[n] = sum[n] * mine + other.sum[n] * its;
    total = total * mine + other.total * its, top = larger;
  }
  __device__ __forceinline__ SplitSoftmax FromLane(int mask) const {
    SplitSoftmax from;
#pragma unroll
    for (int n = 0; n < N; n++) from.sum[n] = __shfl_xor_sync(~0u, sum[n], mask);
    from.top = __shfl_xor_sync(~0u, top, mask), from.total = __shfl_xor_sync(~0u, total, mask);
    return from;
  }
};

// Adds a score without a value, and stores the row's result.
template <class T>
struct SplitResult {
  const SplitArgs& args;
  int b, i, h;

  __device__ __forceinline__ void Store(int column, float sum, float top, float total) const {
    if (args.rules.sinks) {
      float sink = Widen(static_cast<const T*>(args.rules.sinks)[h]), larger = fmaxf(top, sink);
      float factor = SplitSoftmax<1>::Factor(top, larger);
      sum *= factor, total = total * factor + SplitSoftmax<1>::Factor(sink, larger), top = larger;
    }
    args.out.At<T>(b, i, h)[column] = Narrow<T>(total == 0 ? 0 : sum / total);
    if (column == 0) *args.lse.At<float>(b, i, h) = top + logf(total);
  }
};

// One query of up to R heads [first_head, first_head + heads), and its keys [begin, end).
template <class Shape, int R>
struct SplitBlock {
  using T = typename Shape::Element;
  static constexpr int V = Shape::V, kPacks = Shape::kPacks, kColumns = Shape::kColumns;
  using Row = Vector<T>[kPacks];

  const SplitArgs& args;
  int tile, split, b, i, g, first_head, heads, begin, end;
  int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  int group = lane / Shape::kLanes, column = lane % Shape::kLanes * V;  // the first column of the first pack

  explicit __device__ __forceinline__ SplitBlock(const SplitArgs& a) : args(a) {
    const SdpaSizes& z = args.z;
    tile = int(blockIdx.x) / args.splits, split = int(blockIdx.x) % args.splits;
    int rest = tile / args.chunks, chunk = tile % args.chunks;
    g = rest % z.G, i = rest / z.G % z.T, b = rest / z.G / z.T;
    first_head = z.FirstHead(g) + chunk * R, heads = min(R, z.EndHead(g) - first_head);
  }
  // Finds this block's part of the keys that the query sees.
  __device__ __forceinline__ void FindKeys(IndexRange seen) {
    int part = (seen.end - seen.begin + args.splits - 1) / args.splits;
    part = (part + Shape::kKeys - 1) / Shape::kKeys * Shape::kKeys;
    begin = min(int64_t(seen.end), seen.begin + int64_t(split) * part), end = min(seen.end, begin + part);
  }

  // Begins to fetch the keys and values that the block will read. The offset may be an old one here, so it is not kept
  // in the L1 cache.
  __device__ __forceinline__ void FetchKeys() {
    constexpr int kLine = 128 / int(sizeof(T));
    const SdpaRules& rules = args.rules;
    int64_t offset = rules.offsets ? max(int64_t(0), min(__ldcg(rules.offsets + b), int64_t(args.z.S))) : 0;
    FindKeys(rules.KeysAt(i + rules.shift + offset));
    for (int j = begin + int(threadIdx.x); j < end; j += kThreads)
      for (int d = 0; d < args.z.D; d += kLine) {
        FetchToL2(args.k.At<const T>(b, j, g) + d);
        FetchToL2(args.v.At<const T>(b, j, g) + d);
      }
  }

  static __device__ __forceinline__ int PackColumn(int column, int p) { return column + p * Shape::kLanes * V; }
  __device__ __forceinline__ void Load(const T* row, Row& to) const {
#pragma unroll
    for (int p = 0; p < kPacks; p++) {
      int at = PackColumn(column, p);
      to[p] = at < args.z.D ? Vector<T>::Load(row + at) : Vector<T>{};
    }
  }

  // Returns the product of a query's columns of this lane and a key's, summed over the group's lanes.
  __device__ __forceinline__ float Product(const float (&query)[kColumns], const Row& key) const {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPacks; p++)
#pragma unroll
      for (int v = 0; v < V; v++) sum = fmaf(query[p * V + v], key[p][v], sum);
#pragma unroll
    for (int other = Shape::kLanes / 2; other > 0; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    return sum;
  }

  // Adds kAtOnce keys, of which this group's are first, first + kGroups, and so on.
  __device__ __forceinline__ void Step(const float (&query)[R][kColumns], int first,
                                       SplitSoftmax<kColumns> (&softmax)[R]) const {
    Row keys[kAtOnce], values[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) {
      int j = min(first + u * Shape::kGroups, end - 1);  // keys past the end are loaded again and not used
      Load(args.k.At<const T>(b, j, g), keys[u]);
      Load(args.v.At<const T>(b, j, g), values[u]);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
      float score[kAtOnce], top = softmax[r].top;
#pragma unroll
      for (int u = 0; u < kAtOnce; u++) {
        ScorePlace at{b, first_head + r, i, first + u * Shape::kGroups};
        float product = Product(query[r], keys[u]) * float(args.z.scale);  // by all lanes of the warp
        bool seen = r < heads && at.j < end && args.rules.Sees(at);
        score[u] = seen ? args.rules.Score<T>(product, at) : -INFINITY;
        top = fmaxf(top, score[u]);
      }
      Add(score, values, {b, first_head + r, i, first}, top, softmax[r]);
    }
  }
  __device__ __forceinline__ void Add(const float (&score)[kAtOnce], const Row (&values)[kAtOnce], ScorePlace at,
                                      float top, SplitSoftmax<kColumns>& softmax) const {
    float factor = SplitSoftmax<kColumns>::Factor(softmax.top, top);
    softmax.top = top, softmax.total *= factor;
#pragma unroll
    for (int n = 0; n < kColumns; n++) softmax.sum[n] *= factor;
#pragma unroll
    for (int u = 0; u < kAtOnce; u++, at.j += Shape::kGroups) {
      // A NaN must reach the sums, so only a score that is not seen is skipped.
      float p = score[u] == -INFINITY ? 0 : ExpOf(score[u] - top);
      softmax.total += p;
      if (args.rules.dropout.step) p = p > 0 && args.rules.dropout.Keeps(at) ? p * float(args.rules.dropout.kept) : 0;
      if (p == 0) continue;  // its value may be infinite
#pragma unroll
      for (int n = 0; n < kColumns; n++) softmax.sum[n] = fmaf(p, values[u][n / V][n % V], softmax.sum[n]);
    }
  }

  __device__ __forceinline__ void LoadQuery(float (&query)[R][kColumns]) const {
#pragma unroll
    for (int r = 0; r < R; r++) {
      int head = min(first_head + max(min(r, heads - 1), 0), args.z.H - 1);  // rows past the end repeat one
      Row row;
      Load(args.q.At<const T>(b, i, head), row);
#pragma unroll
      for (int n = 0; n < kColumns; n++) query[r][n] = row[n / V][n % V];
    }
  }
  // Joins the groups of each warp into `rows` [kWarps, R, D + 2]: sums, the largest score and the total.
  __device__ __forceinline__ void JoinGroups(SplitSoftmax<kColumns> (&softmax)[R], float* rows) const {
#pragma unroll
    for (int r = 0; r < R; r++) {
      for (int other = Shape::kLanes; other < kWarp; other *= 2) softmax[r].Join(softmax[r].FromLane(other));
      float* row = rows + (warp * R + r) * pitch();  // [D + 2]
#pragma unroll
      for (int n = 0; n < kColumns; n++) {
        int at = PackColumn(column, n / V) + n % V;
        if (group == 0 && at < args.z.D) row[at] = softmax[r].sum[n];
      }
      if (lane == 0) row[args.z.D] = softmax[r].top, row[args.z.D + 1] = softmax[r].total;
    }
  }
  // Joins the warps. Stores the results if there is one block, and the block's part otherwise.
  __device__ __forceinline__ void JoinWarps(const float* rows) const {
    int D = args.z.D;
    float* part = parts() + split * R * pitch();  // [R, D + 2]
    for (int at = int(threadIdx.x); at < heads * D; at += kThreads) {
      int r = at / D, d = at % D;
      SplitSoftmax<1> joined;
#pragma unroll
      for (int w = 0; w < kWarps; w++) {
        const float* row = rows + (w * R + r) * pitch();
        joined.Join({{row[d]}, row[D], row[D + 1]});
      }
      if (args.splits == 1) {
        SplitResult<T>{args, b, i, first_head + r}.Store(d, joined.sum[0], joined.top, joined.total);
        continue;
      }
      part[r * pitch() + d] = joined.sum[0];
      if (d == 0) part[r * pitch() + D] = joined.top, part[r * pitch() + D + 1] = joined.total;
    }
  }
  // Joins the parts of all blocks of the tile, and stores the results. `factors` has room for [splits, R].
  __device__ __forceinline__ void JoinSplits(float* factors) const {
    __shared__ float top[R], total[R];
    int D = args.z.D, step = R * pitch();
    for (int r = warp; r < heads; r += kWarps) {
      const float* row = parts() + r * pitch() + D;  // [splits]: top and total
      float largest = -INFINITY, sum = 0;
      for (int s = lane; s < args.splits; s += kWarp) largest = fmaxf(largest, __ldcg(row + s * step));
      largest = WarpReduce(largest, [](float x, float y) { return fmaxf(x, y); });
      for (int s = lane; s < args.splits; s += kWarp) {
        float factor = SplitSoftmax<1>::Factor(__ldcg(row + s * step), largest);
        factors[s * R + r] = factor, sum += factor * __ldcg(row + s * step + 1);
      }
      sum = WarpReduce(sum, SumOf());
      if (lane == 0) top[r] = largest, total[r] = sum;
    }
    __syncthreads();
    for (int at = int(threadIdx.x); at < heads * D; at += kThreads) {
      int r = at / D, d = at % D;
      const float* column_parts = parts() + r * pitch() + d;  // [splits]
      float sum = 0;
#pragma unroll 8
      for (int s = 0; s < args.splits; s++) sum = fmaf(factors[s * R + r], __ldcg(column_parts + s * step), sum);
      SplitResult<T>{args, b, i, first_head + r}.Store(d, sum, top[r], total[r]);
    }
  }

 private:
  __device__ __forceinline__ int pitch() const { return args.z.D + 2; }
  __device__ __forceinline__ float* parts() const {  // [splits, R, D + 2], of the tile
    return args.parts + int64_t(tile) * args.splits * R * pitch();
  }
};

template <class Shape, int R>
__global__ void __launch_bounds__(kThreads) SplitForward(const __grid_constant__ SplitArgs args) {
  using T = typename Shape::Element;
  using Block = SplitBlock<Shape, R>;
  constexpr int kColumns = Shape::kColumns;
  __shared__ float shared[R * std::max(kWarps * (Shape::D + 2), kMostSplits)];  // warps' sums, then factors of splits
  Block block(args);
  block.FetchKeys();
  AwaitPrevious();
  LetNextStart();
  block.FindKeys(args.rules.Keys(block.b, block.i));

  float query[R][kColumns];
  SplitSoftmax<kColumns> softmax[R];
  block.LoadQuery(query);
  int first = block.begin + block.warp * Shape::kGroups * kAtOnce;
  for (; first < block.end; first += Shape::kKeys) block.Step(query, first + block.group, softmax);
  block.JoinGroups(softmax, shared);
  __syncthreads();
  block.JoinWarps(shared);
  if (args.splits == 1 || !ComesLast(args.tickets + block.tile, uint32_t(args.splits))) return;
  block.JoinSplits(shared);
}

template <class Shape, int R>
void LaunchSplit(const KernelCall& call, const SdpaSplit& split) {
  CudaDevice& device = DeviceOf(call);
  SdpaSizes z(call);
  SplitArgs args{.z = z,
                 .rules = SdpaRules(call),
                 .q = OperandOf(call.in[0]),
                 .k = OperandOf(call.in[1]),
                 .v = OperandOf(call.in[2]),
                 .out = OperandOf(call.out[0]),
                 .lse = OperandOf(call.out[1]),
                 .chunks = split.chunks,
                 .splits = split.splits,
                 .parts = static_cast<float*>(call.workspace),
                 .tickets = device.tickets()};
  LaunchEarly(device, "sdpa: few queries", &SplitForward<Shape, R>, unsigned(split.tiles * split.splits), kThreads,
              args);
}

template <class Shape>
void LaunchSplit(const KernelCall& call, const SdpaSplit& split) {
  switch (split.rows) {
    case 1:
      return LaunchSplit<Shape, 1>(call, split);
    case 4:
      return LaunchSplit<Shape, 4>(call, split);
    default:
      return LaunchSplit<Shape, 8>(call, split);
  }
}

template <class T>
void RunAs(const KernelCall& call, const SdpaSplit& split) {
  int64_t D = call.in[0].dim(3).extent;
  if (D <= 64) return LaunchSplit<SplitShape<T, 64>>(call, split);
  if (D <= 128) return LaunchSplit<SplitShape<T, 128>>(call, split);
  LaunchSplit<SplitShape<T, 256>>(call, split);
}

}  // namespace

void SdpaFewQueries(const KernelCall& call, const SdpaSplit& split) {
  switch (call.in[0].dtype) {
    case DType::kF32:
      return RunAs<float>(call, split);
    case DType::kBF16:
      return RunAs<BF16>(call, split);
    default:
      return RunAs<F16>(call, split);
  }
}

}  // namespace weft::cuda
