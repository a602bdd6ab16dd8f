// A thread loads 16 bytes of the matrix at a time, and many of them before it uses the first, because these kernels
// wait for memory and for nothing else. If the matrix is constant, the first loads are issued before the previous
// kernel has ended. Sums have a fixed order that depends only on the matrix.
#include "weft/kernels/cuda/product/few_rows.h"

#include <algorithm>
#include <array>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/many.cuh"
#include "weft/kernels/cuda/loops/scalar_math.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"
#include "weft/kernels/cuda/plan/product_plan.h"

namespace weft::cuda {
namespace {

constexpr int kMostJobs = 4;              // of a launch
constexpr int kColumnLanes = 4;           // neighbouring threads that read one row of b: 64 bytes
constexpr int kColumnLanesUnaligned = 8;  // as kColumnLanes, if single elements are read
constexpr int kWarpColumns = 4;           // of a b that is stored by columns: how many a warp reads at a time
constexpr int kThreads = 256;
constexpr int kManyTerms = 1024, kManyBlocks = 2 * kProcessors;  // see ThreadsOf

struct Entry {
  FewRowsJob job;
  uint32_t first;  // block
};
struct Entries {
  Entry of[kMostJobs];
  int count;
};

// Loads past the L1 cache: nothing reads an element twice.
template <class T, int V>
__device__ __forceinline__ Vector<T, V> LoadOnce(const T* at) {
  if constexpr (V == 1) {
    return Vector<T, V>::Load(at);
  } else {
    uint4 words = __ldcs(reinterpret_cast<const uint4*>(at));
    return {{{words.x, words.y, words.z, words.w}}};
  }
}

__device__ __forceinline__ float Activated(Activation activation, float x) {
  switch (activation) {
    case Activation::kGelu:
      return GeluOf(x);
    case Activation::kGeluExact:
      return GeluExactOf(x);
    case Activation::kSilu:
      return x / (1 + expf(-x));
    case Activation::kRelu:
      return x <= 0 ? 0 : x;  // keeps NaN
    default:
      return x;
  }
}

// One element of the result, and what is added to it. The bias may be loaded early.
template <class T>
struct AddedTo {
  const FewRowsJob& job;
  int row, column;
  bool stores;  // whether there is such an element
  float bias = 0, residual = 0;

  __device__ __forceinline__ AddedTo(const FewRowsJob& of, int i, int j)
      : job(of), row(i), column(j), stores(i < of.rows && j < of.columns) {}
  __device__ __forceinline__ int64_t place() const { return row * job.ldd + column; }
  __device__ __forceinline__ float At(const void* data, int64_t i) const {
    return job.wide ? static_cast<const float*>(data)[i] : Widen(static_cast<const T*>(data)[i]);
  }
  __device__ __forceinline__ void LoadBias() {
    if (stores && job.bias) bias = At(job.bias, column);
  }
  __device__ __forceinline__ void LoadResidual() {
    if (stores && job.residual) residual = At(job.residual, place());
  }
  __device__ __forceinline__ void Store(float sum) const {
    float value = Activated(job.activation, sum + bias) + residual;
    if (job.wide)
      static_cast<float*>(job.out)[place()] = value;
    else
      static_cast<T*>(job.out)[place()] = Narrow<T>(value);
  }
};

// Adds the products of a term, whose column of a begins at `a`, and a row of b. Rows of a past the last repeat one.
template <class T, int M, int V>
__device__ __forceinline__ void AddTerm(float (&sum)[M][V], const FewRowsJob& job, const T* a, const Vector<T, V>& b) {
#pragma unroll
  for (int m = 0; m < M; m++) {
    float x = Widen(a[(m < job.rows ? m : 0) * job.lda]);
#pragma unroll
    for (int v = 0; v < V; v++) sum[m][v] = fmaf(x, b[v], sum[m][v]);
  }
}

// For a b that is stored by rows. A block takes a few columns and all terms. Neighbouring lanes read a row of b, and
// the threads of a column take every kSteps-th row. Requires threads >= M * kColumns.
template <class T, int M, int V, int threads>
__global__ void __launch_bounds__(threads) FewRowsByRows(const __grid_constant__ Entries entries) {
  constexpr int kLanes = V == 1 ? kColumnLanesUnaligned : kColumnLanes, kColumns = kLanes * V;
  constexpr int kSteps = threads / kLanes, kWarps = threads / kWarp, kAhead = M > 4 ? 6 : 12;
  __shared__ float parts[kWarps][M][kColumns];
  const Entry& entry = EntryOf(entries.of, entries.count, blockIdx.x);
  const FewRowsJob& job = entry.job;
  int tid = int(threadIdx.x), lane = tid % kLanes, first_column = int(blockIdx.x - entry.first) * kColumns;
  // Lanes past the last column read it again.
  const T* b = static_cast<const T*>(job.b) + min(first_column + lane * V, job.columns - V);  // [k, V]
  const T* a = static_cast<const T*>(job.a);                                                  // [M, k]
  Vector<T, V> ahead[kAhead];
  auto load = [&](int k) {
#pragma unroll
    for (int u = 0; u < kAhead; u++)
      if (k + u * kSteps < job.terms) ahead[u] = LoadOnce<T, V>(b + (k + u * kSteps) * job.ldb);
  };
  int k = tid / kLanes, row = tid / kColumns, column = first_column + tid % kColumns;
  AddedTo<T> added(job, row, column);
  if (job.constant) load(k), added.LoadBias();
  AwaitPrevious();
  LetNextStart();
  if (!job.constant) load(k), added.LoadBias();
  added.LoadResidual();

  float sum[M][V] = {};
  while (k < job.terms) {
#pragma unroll
    for (int u = 0; u < kAhead; u++)
      if (k + u * kSteps < job.terms) AddTerm(sum, job, a + k + u * kSteps, ahead[u]);
    k += kAhead * kSteps;
    if (k < job.terms) load(k);
  }

#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int v = 0; v < V; v++) {
      for (int other = kLanes; other < kWarp; other *= 2) sum[m][v] += __shfl_xor_sync(~0u, sum[m][v], other);
      if (tid % kWarp < kLanes) parts[tid / kWarp][m][lane * V + v] = sum[m][v];
    }
  __syncthreads();
  if (!added.stores) return;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w++) total += parts[w][row][tid % kColumns];
  added.Store(total);
}

// For a b that is stored by columns. Each warp takes kWarpColumns of them, and its lanes the terms.
template <class T, int M, int V>
__global__ void __launch_bounds__(kThreads) FewRowsByColumns(const __grid_constant__ Entries entries) {
  constexpr int kStep = kWarp * V;
  const Entry& entry = EntryOf(entries.of, entries.count, blockIdx.x);
  const FewRowsJob& job = entry.job;
  int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  int first = (int(blockIdx.x - entry.first) * (kThreads / kWarp) + warp) * kWarpColumns;
  if (first >= job.columns) return;  // the whole warp; an early end counts as LetNextStart
  const T *a = static_cast<const T*>(job.a), *columns[kWarpColumns];
#pragma unroll
  for (int c = 0; c < kWarpColumns; c++)
    columns[c] = static_cast<const T*>(job.b) + min(first + c, job.columns - 1) * job.ldb;
  Vector<T, V> b[kWarpColumns], next[kWarpColumns];  // [c, V]
  auto load = [&](Vector<T, V>(&to)[kWarpColumns], int k) {
    if (k >= job.terms) return;
#pragma unroll
    for (int c = 0; c < kWarpColumns; c++) to[c] = LoadOnce<T, V>(columns[c] + k);
  };
  int k = lane * V, row = lane / kWarpColumns;
  AddedTo<T> added(job, row, first + lane % kWarpColumns);
  if (job.constant) load(b, k);
  AwaitPrevious();
  LetNextStart();
  if (!job.constant) load(b, k);
  added.LoadBias(), added.LoadResidual();

  float sum[kWarpColumns][M] = {};
  for (; k < job.terms; k += kStep) {
    load(next, k + kStep);
#pragma unroll
    for (int m = 0; m < M; m++) {
      auto x = Vector<T, V>::Load(a + (m < job.rows ? m : 0) * job.lda + k);  // [V]
#pragma unroll
      for (int c = 0; c < kWarpColumns; c++)
#pragma unroll
        for (int v = 0; v < V; v++) sum[c][m] = fmaf(x[v], b[c][v], sum[c][m]);
    }
#pragma unroll
    for (int c = 0; c < kWarpColumns; c++) b[c] = next[c];
  }
  float mine = 0;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int c = 0; c < kWarpColumns; c++) {
      float total = WarpReduce(sum[c][m], SumOf());
      if (row == m && lane % kWarpColumns == c) mine = total;
    }
  if (added.stores) added.Store(mine);
}

// Which kernel runs a job. Jobs with equal variants may share a launch. The order of sums depends on all but `rows`.
struct Variant {
  DType dtype;
  bool k_inner, packs;  // packs: 16 bytes are read at a time
  int rows = 0;         // M: 1, 2, 4 or 8
  int threads = 0;
  bool operator==(const Variant&) const = default;
};

// With many terms and few blocks a block needs more threads, so that enough loads are on their way.
int ThreadsOf(const FewRowsJob& job, int columns) {
  bool large = !job.k_inner && job.terms > kManyTerms && CeilDiv(job.columns, columns) < kManyBlocks;
  return large ? 2 * kThreads : kThreads;
}

int ColumnsOfBlock(const Variant& variant) {
  if (variant.k_inner) return kWarpColumns * kThreads / kWarp;
  return variant.packs ? kColumnLanes * int(16 / SizeOf(variant.dtype)) : kColumnLanesUnaligned;
}

Variant VariantOf(const FewRowsJob& job) {
  int pack = int(16 / SizeOf(job.dtype));
  auto fits = [&](const void* data, int64_t ld) { return Aligned16(data) && ld % pack == 0; };
  Variant variant{.dtype = job.dtype, .k_inner = job.k_inner, .packs = fits(job.b, job.ldb)};
  variant.packs &=
      job.k_inner ? job.terms % pack == 0 && fits(job.a, job.rows == 1 ? 0 : job.lda) : job.columns % pack == 0;
  variant.rows = !variant.packs || job.rows > 4 ? kMostFewRows : job.rows > 2 ? 4 : job.rows;
  variant.threads = ThreadsOf(job, ColumnsOfBlock(variant));
  return variant;
}

using FewRowsKernel = void (*)(Entries);

template <class T, int M, int V>
FewRowsKernel KernelOf(const Variant& variant) {
  if (variant.k_inner) return &FewRowsByColumns<T, M, V>;
  return variant.threads == kThreads ? &FewRowsByRows<T, M, V, kThreads> : &FewRowsByRows<T, M, V, 2 * kThreads>;
}
template <class T>
FewRowsKernel KernelOf(const Variant& variant) {
  constexpr int V = kPack<T>;
  if (!variant.packs) return KernelOf<T, kMostFewRows, 1>(variant);
  switch (variant.rows) {
    case 1:
      return KernelOf<T, 1, V>(variant);
    case 2:
      return KernelOf<T, 2, V>(variant);
    case 4:
      return KernelOf<T, 4, V>(variant);
    default:
      return KernelOf<T, kMostFewRows, V>(variant);
  }
}

void Launch(const KernelCall& call, const Variant& variant, std::span<const FewRowsJob> jobs) {
  Entries entries{};
  uint32_t blocks = 0;
  for (const FewRowsJob& job : jobs) {
    entries.of[entries.count++] = {job, blocks};
    blocks += uint32_t(CeilDiv(job.columns, ColumnsOfBlock(variant)));
  }
  FewRowsKernel kernel = variant.dtype == DType::kF32    ? KernelOf<float>(variant)
                         : variant.dtype == DType::kBF16 ? KernelOf<BF16>(variant)
                                                         : KernelOf<F16>(variant);
  LaunchEarly(DeviceOf(call), "einsum: few rows", kernel, blocks, unsigned(variant.threads), entries);
}

}  // namespace

void RunFewRows(const KernelCall& call, std::span<const FewRowsJob> jobs) {
  for (size_t first = 0, count; first < jobs.size(); first += count) {
    Variant variant = VariantOf(jobs[first]);
    for (count = 1; count < kMostJobs && first + count < jobs.size(); count++)
      if (VariantOf(jobs[first + count]) != variant) break;
    Launch(call, variant, jobs.subspan(first, count));
  }
}

}  // namespace weft::cuda
