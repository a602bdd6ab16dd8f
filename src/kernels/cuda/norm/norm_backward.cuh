// The kernel of the gradients of RmsNorm and LayerNorm (`center`), for rows that fit in registers.
// With h = (x - mean) * rstd:
//   dx = rstd * (w dy - mean(w dy) - h * mean(w dy h)) [+ add], dweight = sum of dy h, dbias = sum of dy;
// RmsNorm has neither mean nor mean(w dy) nor dbias.
//
// x and dy are read from memory only once. Each block walks over rows, and every thread keeps the sums of its columns
// in registers. The registers have no room for more. Rows on their way, and the weights, which are twice as wide as
// 16-bit floats, therefore lie in shared memory.
#pragma once
#include <cuda_pipeline_primitives.h>

#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/norm/norm_rows.cuh"

namespace weft::cuda {

template <class T>
struct NormGradArgs {
  const T *x = nullptr, *dy = nullptr, *add = nullptr;  // add may be null
  const Compute<T>* weight = nullptr;
  T* dx = nullptr;
  const Compute<T>*mean = nullptr, *rstd = nullptr;
  Compute<T>* partial = nullptr;  // [blocks, dweight and dbias, C]
  Walk at;                        // operand 0: x, 1: dy, 2: dx, 3: add
  Walk stats;                     // operand 0: rstd, 1: mean
  RowGroups groups;
  int64_t columns = 0;
  Compute<T> share = 0;  // 1 / columns
};

// The next row on its way to shared memory. Each thread fetches the vectors that it uses itself, so no thread waits for
// another. Vectors beyond the row are zero and stay zero, which adds nothing to sums.
template <class T, int U>
struct NextRow {
  using V = Vector<T>;
  enum Slot { kX, kDy, kAdd };
  const NormGradArgs<T>& args;
  V* slots;  // [x, dy and `add` if there is one; U; threads of the block]

  __device__ __forceinline__ NextRow(const NormGradArgs<T>& a, void* shared)
      : args(a), slots(static_cast<V*>(shared) + threadIdx.y * blockDim.x + threadIdx.x) {
    for (int u = int(args.groups.vectors - threadIdx.x + blockDim.x - 1) / int(blockDim.x); u < U; u++)
      for (Slot slot : {kX, kDy}) At(slot, u) = {};
  }
  __device__ __forceinline__ V& At(Slot slot, int u) const {
    return slots[(int(slot) * U + u) * int(blockDim.x * blockDim.y)];
  }
  __device__ __forceinline__ void Fetch(const T* row, Slot slot) const {
#pragma unroll
    for (int u = 0; u < U; u++) {
      int at = u * int(blockDim.x) + int(threadIdx.x);
      if (at < args.groups.vectors) __pipeline_memcpy_async(&At(slot, u), row + at * kPack<T>, sizeof(V));
    }
  }
  __device__ __forceinline__ void Take(Slot slot, V (&to)[U]) const {
#pragma unroll
    for (int u = 0; u < U; u++) to[u] = At(slot, u);
  }

  __device__ __forceinline__ void FetchRow(int64_t row) const {
    if (row < args.at.steps) {
      Place at = args.at.At(uint32_t(row));
      Fetch(args.x + at.of[0], kX);
      Fetch(args.dy + at.of[1], kDy);
    }
    __pipeline_commit();
  }
  __device__ __forceinline__ void FetchAdd(int64_t row) const {
    if (args.add && row < args.at.steps) Fetch(args.add + args.at.At(uint32_t(row)).of[3], kAdd);
    __pipeline_commit();
  }
  // The two fetches alternate, and waiting for one leaves the other in flight.
  __device__ __forceinline__ void Await() const { __pipeline_wait_prior(1); }
};

// Statistics of the row that is being processed: h = x * rstd + shift.
template <bool center, class T>
struct GradStats {
  using C = Compute<T>;
  C mean = 0, rstd = 0;
  __device__ __forceinline__ void Load(const NormGradArgs<T>& args, int64_t row) {
    if (row >= args.at.steps) return;
    Place at = args.stats.At(uint32_t(row));
    rstd = args.rstd[at.of[0]];
    if constexpr (center) mean = args.mean[at.of[1]];
  }
  // Not computed by Load, which would then wait for memory.
  __device__ __forceinline__ C Shift() const { return center ? -mean * rstd : C(0); }
};

// The weights in shared memory, as [V / N, vectors, N], so that neighbouring threads read neighbouring pieces of 16
// bytes.
template <class T>
struct SharedWeights {
  using C = Compute<T>;
  static constexpr int V = kPack<T>, N = kPack<C>;
  Pack16<C>* pieces;
  int vectors;

  // All threads of the block must call it. A barrier must follow.
  __device__ __forceinline__ void Load(const C* weight) const {
    for (int i = int(threadIdx.y * blockDim.x + threadIdx.x); i < vectors * (V / N); i += int(blockDim.x * blockDim.y))
      pieces[i % (V / N) * vectors + i / (V / N)] = reinterpret_cast<const Pack16<C>*>(weight)[i];
  }
  __device__ __forceinline__ Pack<C, V> At(int vector) const {
    Pack<C, V> weight;  // [V]
#pragma unroll
    for (int p = 0; p < V / N; p++) {
      Pack16<C> piece = pieces[p * vectors + vector];
#pragma unroll
      for (int n = 0; n < N; n++) weight.v[p * N + n] = piece.v[n];
    }
    return weight;
  }
};

// The sums of one thread over rows.
template <bool center, class T, int U>
struct GradColumns {
  using C = Compute<T>;
  static constexpr int V = kPack<T>, N = kPack<C>, kSums = center ? 2 : 1;
  C dweight[U][V] = {}, dbias[U][V] = {};  // [U, V]; the compiler removes dbias if it is not used

  // Adds a row to the sums, and the thread's terms of mean(w dy h) and mean(w dy) to `means`.
  __device__ __forceinline__ void AddRow(const SharedWeights<T>& weights, const Vector<T> (&x)[U],
                                         const Vector<T> (&dy)[U], const GradStats<center, T>& stats,
                                         C (&means)[kSums]) {
    C shift = stats.Shift();
#pragma unroll
    for (int u = 0; u < U; u++) {
      // Beyond the row dy is zero, so any weight will do.
      Pack<C, V> weight = weights.At(min(u * int(blockDim.x) + int(threadIdx.x), weights.vectors - 1));  // [V]
#pragma unroll
      for (int v = 0; v < V; v++) {
        C h = x[u][v] * stats.rstd + shift, d = dy[u][v], along = weight.v[v] * d;
        means[0] += along * h;
        dweight[u][v] += d * h;
        if constexpr (center) means[1] += along, dbias[u][v] += d;
      }
    }
  }

  // Stores dx of a row, computed as rstd * (w dy) + x * slope + base.
  __device__ __forceinline__ void StoreGrad(const NormGradArgs<T>& args, const SharedWeights<T>& weights,
                                            const Vector<T> (&x)[U], const Vector<T> (&dy)[U],
                                            const NextRow<T, U>& next, const GradStats<center, T>& stats,
                                            const C (&means)[kSums], T* dx) {
    C slope = -stats.rstd * stats.rstd * means[0], base = 0;
    if constexpr (center) base = -stats.rstd * (means[1] + stats.Shift() * means[0]);
#pragma unroll
    for (int u = 0; u < U; u++) {
      int vector = u * int(blockDim.x) + int(threadIdx.x);
      if (vector >= args.groups.vectors) break;
      Pack<C, V> weight = weights.At(vector);  // [V]
      C d[V];                                  // [V]
#pragma unroll
      for (int v = 0; v < V; v++) d[v] = weight.v[v] * dy[u][v] * stats.rstd + (x[u][v] * slope + base);
      if (args.add) {
        Vector<T> add = next.At(NextRow<T, U>::kAdd, u);  // [V]
#pragma unroll
        for (int v = 0; v < V; v++) d[v] += add[v];
      }
      Vector<T>::Of(d).Store(dx + vector * V);
    }
  }

  // Stores the sums over a block's rows to `partial` [dweight and dbias, C]. They are exchanged in shared memory as
  // [rows, dweight and dbias, V / N, vectors] pieces of N, so that neighbouring threads have neighbouring pieces.
  __device__ void Store(const NormGradArgs<T>& args, void* shared, C* partial) const {
    constexpr int P = V / N;
    auto pieces = static_cast<Pack16<C>*>(shared);
    int vectors = args.groups.vectors, threads = int(blockDim.x * blockDim.y);
    __pipeline_wait_prior(0);
    __syncthreads();  // rows and weights are no longer needed
#pragma unroll
    for (int i = 0; i < kSums * P * U; i++) {
      int sum = i / (P * U), p = i / U % P, u = i % U, vector = u * int(blockDim.x) + int(threadIdx.x);
      if (vector >= vectors) continue;
      Pack16<C> piece;  // [N]
#pragma unroll
      for (int n = 0; n < N; n++) piece.v[n] = sum ? dbias[u][p * N + n] : dweight[u][p * N + n];
      pieces[((int(threadIdx.y) * kSums + sum) * P + p) * vectors + vector] = piece;
    }
    __syncthreads();
    for (int i = int(threadIdx.y * blockDim.x + threadIdx.x); i < kSums * P * vectors; i += threads) {
      Pack16<C> total = pieces[i];  // [N]
      for (int row = 1; row < int(blockDim.y); row++) {
        Pack16<C> piece = pieces[row * kSums * P * vectors + i];  // [N]
#pragma unroll
        for (int n = 0; n < N; n++) total.v[n] += piece.v[n];
      }
      int place = i / vectors, vector = i - place * vectors;
      *reinterpret_cast<Pack16<C>*>(partial + place / P * args.columns + vector * V + place % P * N) = total;
    }
  }
};

// Returns the bytes of shared memory. It holds weights and next rows first, and later the sums of the block's rows.
template <bool center, class T>
size_t GradShared(const RowGroups& groups, bool adds) {
  size_t weights = size_t(groups.vectors) * kPack<T> * sizeof(Compute<T>), sums = weights * (center ? 2 : 1);
  size_t slots = size_t(adds ? 3 : 2) * size_t(groups.per_thread);
  return std::max(weights + slots * groups.block() * sizeof(Vector<T>), sums * size_t(groups.rows));
}

template <class T, int U>
__device__ __forceinline__ void KeepPacked(Vector<T> (&vectors)[U]) {
#pragma unroll
  for (int u = 0; u < U; u++) vectors[u].KeepPacked();
}

// `wide`: for rows that do not fit narrow blocks.
template <bool center, class T, int U, bool wide>
__global__ void __launch_bounds__(wide ? kGradLimits.threads : kNarrowGrad, GradResidents(U, wide))
    NormGradInRegisters(const __grid_constant__ NormGradArgs<T> args) {
  using C = Compute<T>;
  LetNextStart();
  constexpr int kSums = center ? 2 : 1;
  extern __shared__ __align__(16) unsigned char shared[];  // first weights and next rows, then sums
  __shared__ RowSumBuffer<C, kSums> buffer;
  int64_t row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y, stride = int64_t(gridDim.x) * blockDim.y;
  SharedWeights<T> weights{reinterpret_cast<Pack16<C>*>(shared), args.groups.vectors};
  NextRow<T, U> next(args, shared + args.columns * sizeof(C));
  GradColumns<center, T, U> columns;
  GradStats<center, T> stats, next_stats;
  next.FetchRow(row);
  next.FetchAdd(row);
  next_stats.Load(args, row);
  weights.Load(args.weight);
  __syncthreads();
  int turn = 0;
  for (int64_t first = row - threadIdx.y; first < args.at.steps; first += stride, row += stride, turn ^= 1) {
    Vector<T> x[U], dy[U];  // [U, V]
    stats = next_stats;
    next.Await();
    next.Take(next.kX, x);
    next.Take(next.kDy, dy);
    next.FetchRow(row + stride);
    next_stats.Load(args, row + stride);
    C means[kSums] = {};
    if (row < args.at.steps) columns.AddRow(weights, x, dy, stats, means);
    SumOverRow(means, buffer, turn);
    KeepPacked(x), KeepPacked(dy);
#pragma unroll
    for (int n = 0; n < kSums; n++) means[n] *= args.share;
    next.Await();
    if (row < args.at.steps)
      columns.StoreGrad(args, weights, x, dy, next, stats, means, args.dx + args.at.At(uint32_t(row)).of[2]);
    next.FetchAdd(row + stride);
  }
  columns.Store(args, shared, args.partial + int64_t(blockIdx.x) * kSums * args.columns);
}

}  // namespace weft::cuda
