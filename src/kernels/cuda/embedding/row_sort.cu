// A radix sort from the lowest digit up. A pass reads its input once. Each tile finds out how many entries of each
// digit the tiles before it have, by looking back at what they have published so far (Adinets and Merrill, "Onesweep: a
// faster least significant digit radix sort for GPUs", 2022; Merrill and Garland, "Single-pass parallel prefix scan
// with decoupled look-back", 2016).
#include "weft/kernels/cuda/embedding/row_sort.cuh"

#include <algorithm>

#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/loops/block.cuh"

namespace weft::cuda {
namespace {

constexpr int kDigit = RowSortLayout::kDigit, kBins = RowSortLayout::kBins;
constexpr int kMostPasses = RowSortLayout::kMostPasses;
constexpr int kThreads = RowSortLayout::kThreads, kWarps = kThreads / kWarp;
constexpr int kItems = RowSortLayout::kItems, kTile = RowSortLayout::kTile;
constexpr int kItemsAlone = RowSortLayout::kItemsAlone;
constexpr int kLook = 16;  // tiles that are looked at together

// The values that a tile publishes for a digit: first its own count (kCounted), then the count of all tiles up to and
// including it (kSummed).
constexpr uint32_t kCounted = RowSortLayout::kMostEntries, kSummed = 2 * kCounted, kNumber = kCounted - 1;

struct Digit {
  int shift, bits;
  __device__ __forceinline__ uint32_t operator()(uint32_t row) const { return row >> shift & ((1u << bits) - 1); }
};

struct Pass {
  const RowEntry* from;  // null: the ids
  RowEntry* to;
  uint32_t count;
  Digit digit;
  const uint32_t* counts;   // [kBins], of this digit
  uint32_t *ticket, *sums;  // [tiles, kBins]
  RowSpan* spans;           // null if another pass follows
};

__device__ __forceinline__ RowEntry EntryOf(const Ids& ids, uint32_t position) {
  int64_t row = ids.RowAt(ids.walk.At(position).of[0]);
  return {uint32_t(row < 0 ? ids.n : row), position};
}

// Counts the ids with each digit of each pass: [passes, kBins], initially zero.
__global__ void __launch_bounds__(kThreads)
    CountDigits(const __grid_constant__ Ids ids, uint32_t* counts, int passes, int bits) {
  __shared__ uint32_t shared[kMostPasses * kBins];
  LetNextStart();
  for (int i = int(threadIdx.x); i < passes * kBins; i += kThreads) shared[i] = 0;
  __syncthreads();
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < ids.walk.steps; i += gridDim.x * kThreads) {
    uint32_t row = EntryOf(ids, i).row;
    for (int p = 0; p < passes; p++, row >>= bits) atomicAdd(&shared[p * kBins + int(row & ((1u << bits) - 1))], 1);
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < passes * kBins; i += kThreads)
    if (shared[i]) atomicAdd(counts + i, shared[i]);
}

// Returns the lanes with the same digit as this lane.
__device__ __forceinline__ uint32_t Peers(uint32_t digit) {
  uint32_t peers = ~0u;
#pragma unroll
  for (int b = 0; b < kDigit; b++) {
    bool bit = digit >> b & 1;
    uint32_t with = __ballot_sync(~0u, bit);
    peers &= bit ? with : ~with;
  }
  return peers;
}

// Returns the exclusive sum over the block's threads.
__device__ __forceinline__ uint64_t ExclusiveSum(uint64_t mine, uint64_t (&shared)[kWarps]) {
  auto over_warp = [lane = int(threadIdx.x) % kWarp](uint64_t sum) {
#pragma unroll
    for (int by = 1; by < kWarp; by *= 2) {
      uint64_t left = __shfl_up_sync(~0u, sum, by);
      if (lane >= by) sum += left;
    }
    return sum;
  };
  int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  uint64_t sum = over_warp(mine);
  if (lane == kWarp - 1) shared[warp] = sum;
  __syncthreads();
  uint64_t warps = over_warp(shared[lane % kWarps]);
  uint64_t before = __shfl_sync(~0u, warps, (warp + kWarp - 1) % kWarp);
  return (warp > 0 ? before : 0) + sum - mine;
}

// A tile's entries in shared memory, and how many entries of each digit each warp has.
template <int N>
struct Tile {
  uint16_t of_warp[kWarps][kBins];
  RowEntry entries[N * kThreads];
  uint32_t starts[kBins];
  uint64_t sums[kWarps];
};

// Returns where this thread's u-th entry lies in a tile of N entries per thread. Entries of a warp lie together, so
// that entries with the same digit keep their order.
template <int N>
__device__ __forceinline__ uint32_t PlaceOf(int u) {
  return threadIdx.x / kWarp * (N * kWarp) + uint32_t(u) * kWarp + threadIdx.x % kWarp;
}

// Sorts a tile's entries by a digit, from registers to tile.entries. Only the first `held` entries exist. The others
// must have all bits set, so that they come last within their digit and displace nothing. Each thread handles one value
// of the digit. It returns where that digit begins in the tile (low word), and the sum of `counts`, which has one value
// per thread, over the smaller digits (high word). It calls `know` with the number of entries of its digit as soon as
// it knows it.
template <int N, class Know>
__device__ __forceinline__ uint64_t SortTile(Tile<N>& tile, const RowEntry (&mine)[N], uint32_t held, Digit of,
                                             uint32_t counts, const Know& know) {
  int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  for (auto& counts_of : tile.of_warp) counts_of[threadIdx.x] = 0;
  __syncthreads();
  uint32_t rank[N], digit[N];  // [N]
#pragma unroll
  for (int u = 0; u < N; u++) digit[u] = of(mine[u].row);
#pragma unroll
  for (int u = 0; u < N; u++) {
    uint32_t peers = Peers(digit[u]), before = tile.of_warp[warp][digit[u]];
    __syncwarp();
    uint32_t lower = uint32_t(__popc(peers & ((1u << lane) - 1)));
    rank[u] = before + lower;
    if (lower == 0) tile.of_warp[warp][digit[u]] = uint16_t(before + uint32_t(__popc(peers)));
    __syncwarp();
  }
  __syncthreads();
  uint32_t of_warp[kWarps], count = 0;  // [kWarps]
#pragma unroll
  for (int w = 0; w < kWarps; w++) of_warp[w] = tile.of_warp[w][threadIdx.x];
#pragma unroll
  for (int w = 0; w < kWarps; w++) {
    tile.of_warp[w][threadIdx.x] = uint16_t(count);
    count += of_warp[w];
  }
  know(count);
  uint64_t before = ExclusiveSum(uint64_t(counts) << 32 | count, tile.sums);
  tile.starts[threadIdx.x] = uint32_t(before);
  __syncthreads();
#pragma unroll
  for (int u = 0; u < N; u++)
    if (PlaceOf<N>(u) < held) tile.entries[tile.starts[digit[u]] + tile.of_warp[warp][digit[u]] + rank[u]] = mine[u];
  __syncthreads();
  return before;
}

// If sorted entry `at` of `held` is the first or the last of its row, records its target position `to` in the span of
// the row.
__device__ __forceinline__ void TellSpan(const RowEntry* entries, uint32_t at, uint32_t held, uint32_t to,
                                         RowSpan* spans) {
  uint32_t row = entries[at].row;
  if (at == 0 || entries[at - 1].row != row) atomicMax(&spans[row].not_begin, ~to);
  if (at + 1 == held || entries[at + 1].row != row) atomicMax(&spans[row].end, to + 1);
}

// Returns how many entries of this thread's digit the earlier tiles have.
__device__ __forceinline__ uint32_t LookBack(const volatile uint32_t* sums, uint32_t tile) {
  uint32_t before = 0;
  for (int from = int(tile) - 1; from >= 0;) {
    uint32_t words[kLook];
#pragma unroll
    for (int n = 0; n < kLook; n++) words[n] = from >= n ? sums[(from - n) * kBins + int(threadIdx.x)] : 0;
#pragma unroll
    for (int n = 0; n < kLook; n++) {
      if (words[n] < kCounted) break;  // not published yet, or before the first tile
      before += words[n] & kNumber;
      if (words[n] >= kSummed) return before;
      from--;
    }
  }
  return before;
}

// Each block takes one tile. Tiles are numbered in the order in which blocks start, so that the tiles that a block
// waits for are already running.
__global__ void __launch_bounds__(kThreads)
    SortPass(const __grid_constant__ Ids ids, const __grid_constant__ Pass pass) {
  __shared__ Tile<kItems> tile;
  __shared__ uint32_t ticket, moves[kBins];
  AwaitPrevious();
  LetNextStart();
  if (threadIdx.x == 0) ticket = atomicAdd(pass.ticket, 1);
  uint32_t all = pass.counts[threadIdx.x];
  __syncthreads();
  uint32_t number = ticket, first = number * kTile, held = min(uint32_t(kTile), pass.count - first);
  RowEntry mine[kItems];  // [kItems]
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    uint32_t at = PlaceOf<kItems>(u);
    mine[u] = at >= held ? RowEntry{~0u, 0} : pass.from ? pass.from[first + at] : EntryOf(ids, first + at);
  }
  volatile uint32_t* published = pass.sums + number * kBins + threadIdx.x;
  uint32_t earlier = 0;
  uint64_t before = SortTile(tile, mine, held, pass.digit, all, [&](uint32_t count) {
    *published = (number > 0 ? kCounted : kSummed) | count;
    if (number == 0) return;
    earlier = LookBack(pass.sums, number);  // before entries move, because later tiles wait for it
    *published = kSummed | (earlier + count);
  });
  moves[threadIdx.x] = uint32_t(before >> 32) + earlier - uint32_t(before);
  __syncthreads();
  for (uint32_t at = threadIdx.x; at < held; at += kThreads) {
    RowEntry entry = tile.entries[at];
    uint32_t to = at + moves[pass.digit(entry.row)];
    pass.to[to] = entry;
    if (pass.spans) TellSpan(tile.entries, at, held, to, pass.spans);  // entries of a row are adjacent now
  }
}

// All passes over entries that fit one tile. It may start before the previous kernel has ended, and ends after it.
__global__ void __launch_bounds__(kThreads)
    SortAlone(const __grid_constant__ Ids ids, int passes, int bits, RowEntry* to, RowSpan* spans) {
  __shared__ Tile<kItemsAlone> tile;
  LetNextStart();
  uint32_t held = ids.walk.steps;
  RowEntry mine[kItemsAlone];  // [kItemsAlone]
#pragma unroll
  for (int u = 0; u < kItemsAlone; u++) {
    uint32_t at = PlaceOf<kItemsAlone>(u);
    mine[u] = at < held ? EntryOf(ids, at) : RowEntry{~0u, 0};
  }
  for (int p = 0; p < passes; p++) {
    SortTile(tile, mine, held, {p * bits, bits}, 0, [](uint32_t) {});
#pragma unroll
    for (int u = 0; u < kItemsAlone; u++)
      if (PlaceOf<kItemsAlone>(u) < held) mine[u] = tile.entries[PlaceOf<kItemsAlone>(u)];
  }
  for (uint32_t at = threadIdx.x; at < held; at += kThreads) {
    to[at] = tile.entries[at];
    TellSpan(tile.entries, at, held, at, spans);
  }
  AwaitPrevious();
}

}  // namespace

void RowSort::Clear(CudaDevice& device, void* workspace) const {
  WEFT_CUDA(cudaMemsetAsync(static_cast<std::byte*>(workspace) + clear_, 0, bytes_ - clear_, device.stream()));
}

RowSort::Result RowSort::Run(CudaDevice& device, const Ids& ids, void* workspace) const {
  auto at = [&](size_t offset) { return static_cast<std::byte*>(workspace) + offset; };
  auto words = [&](size_t offset) { return reinterpret_cast<uint32_t*>(at(offset)); };
  auto entries = [&](int pass) { return reinterpret_cast<RowEntry*>(at(entries_[pass % 2])); };
  auto* spans = reinterpret_cast<RowSpan*>(at(spans_));
  if (alone() && count_ > 0)
    LaunchEarly(device, "embedding_grad: sort", &SortAlone, 1, kThreads, ids, passes_, bits_, entries(passes_ - 1),
                spans);
  else if (count_ > 0)
    CountDigits<<<std::min(Blocks(count_, kAlone), 2u * kProcessors), kThreads, 0, device.stream()>>>(
        ids, words(counts_), passes_, bits_);
  WEFT_CUDA_LAUNCHED("embedding_grad: digits");
  for (int p = 0; p < passes_ && !alone() && count_ > 0; p++) {
    Pass pass{.from = p > 0 ? entries(p - 1) : nullptr,
              .to = entries(p),
              .count = count_,
              .digit = {p * bits_, bits_},
              .counts = words(counts_) + p * kBins,
              .ticket = words(tickets_) + p,
              .sums = words(sums_) + size_t(p) * tiles_ * kBins,
              .spans = p + 1 == passes_ ? spans : nullptr};
    LaunchEarly(device, "embedding_grad: sort", &SortPass, tiles_, kThreads, ids, pass);
  }
  return {entries(passes_ - 1), spans, words(zeros_)};
}

}  // namespace weft::cuda
