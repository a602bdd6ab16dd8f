// The kernel of the gradients of RmsNorm and LayerNorm (`center`), for rows that lie in registers.
// With h = (x - mean) * rstd:
//   dx = rstd * (w dy - mean(w dy) - h * mean(w dy h)) [+ add], dweight = sum of dy h, dbias = sum of dy;
// RmsNorm has neither mean nor mean(w dy) nor dbias.
//
// x and dy are read once: each block walks over rows, and every thread keeps the sums of its columns in registers. The
// weights, twice as wide as 16-bit floats, would not fit there too: the block has them in shared memory.
#pragma once
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/norm_rows.cuh"

namespace weft::cuda {

// Blocks are narrow where rows allow: each thread then holds many columns, and the sums over a row cost little. Rows of
// one warp wait for no other.
inline constexpr int kNarrowGrad = 128;
// Blocks that a multiprocessor runs at a time: as many as have enough registers, or nearly so.
template <bool center, class T>
constexpr int GradResidents(int per_thread, bool wide) {
  if (wide) return per_thread == 1 ? 2 : 1;
  if (per_thread < 4) return per_thread == 1 ? 5 : 6 - per_thread;
  return center && sizeof(T) == 2 ? 2 : 3;
}

template <class T>
struct NormGradArgs {
  const T *x = nullptr, *dy = nullptr, *add = nullptr;  // add may stay null
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

// One row as its threads hold it; beyond the last row all zero, which adds nothing to the sums.
template <bool center, class T, int U>
struct GradRow {
  using C = Compute<T>;
  Vector<T> x[U], dy[U];  // [U, V]
  C mean = 0, rstd = 0;
  int64_t to_dx = -1, to_add = 0;  // offsets of the row; -1: there is none

  __device__ __forceinline__ void Load(const NormGradArgs<T>& args, int64_t row) {
    to_dx = -1;
    if (row < args.at.steps) {
      Place at = args.at.At(uint32_t(row)), stats = args.stats.At(uint32_t(row));
      LoadVectors(args.x + at.of[0], args.groups.vectors, x);
      LoadVectors(args.dy + at.of[1], args.groups.vectors, dy);
      rstd = args.rstd[stats.of[0]];
      if constexpr (center) mean = args.mean[stats.of[1]];
      to_dx = at.of[2], to_add = at.of[3];
    } else {
#pragma unroll
      for (int u = 0; u < U; u++) x[u] = dy[u] = Vector<T>{};
    }
  }
  // h = x * rstd + shift. Not worked out by Load, which would wait for memory then.
  __device__ __forceinline__ C Shift() const { return center ? -mean * rstd : C(0); }
  __device__ __forceinline__ void KeepPacked() {
#pragma unroll
    for (int u = 0; u < U; u++) x[u].KeepPacked(), dy[u].KeepPacked();
  }
};

// The weights in shared memory, as [V / N, vectors, N]: neighbouring threads read neighbouring pieces of 16 bytes.
template <class T>
struct SharedWeights {
  using C = Compute<T>;
  static constexpr int V = kPack<T>, N = kPack<C>;
  Pack16<C>* pieces;
  int vectors;

  // All threads of the block call it; a barrier has to follow.
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

// What a thread adds up over rows.
template <bool center, class T, int U>
struct GradColumns {
  using C = Compute<T>;
  static constexpr int V = kPack<T>, kSums = center ? 2 : 1;
  C dweight[U][V] = {}, dbias[U][V] = {};  // [U, V]; dbias goes where it is not used

  // Adds a row, and the thread's terms of mean(w dy h) and mean(w dy) to `means`.
  __device__ __forceinline__ void AddRow(const SharedWeights<T>& weights, const GradRow<center, T, U>& row,
                                         C (&means)[kSums]) {
    C shift = row.Shift();
#pragma unroll
    for (int u = 0; u < U; u++) {
      // Beyond the row dy is zero, and any weight will do.
      Pack<C, V> weight = weights.At(min(u * int(blockDim.x) + int(threadIdx.x), weights.vectors - 1));  // [V]
#pragma unroll
      for (int v = 0; v < V; v++) {
        C h = row.x[u][v] * row.rstd + shift, dy = row.dy[u][v], along = weight.v[v] * dy;
        means[0] += along * h;
        dweight[u][v] += dy * h;
        if constexpr (center) means[1] += along, dbias[u][v] += dy;
      }
    }
  }

  // dx of a row, as rstd * (w dy) + x * slope + base.
  __device__ __forceinline__ void StoreGrad(const NormGradArgs<T>& args, const SharedWeights<T>& weights,
                                            const GradRow<center, T, U>& row, const Vector<T> (&add)[U],
                                            const C (&means)[kSums]) {
    C slope = -row.rstd * row.rstd * means[0], base = 0;
    if constexpr (center) base = -row.rstd * (means[1] + row.Shift() * means[0]);
#pragma unroll
    for (int u = 0; u < U; u++) {
      int vector = u * int(blockDim.x) + int(threadIdx.x);
      if (vector >= args.groups.vectors) break;
      Pack<C, V> weight = weights.At(vector);  // [V]
      C d[V];                                  // [V]
#pragma unroll
      for (int v = 0; v < V; v++)
        d[v] = weight.v[v] * row.dy[u][v] * row.rstd + (row.x[u][v] * slope + base) + add[u][v];
      Vector<T>::Of(d).Store(args.dx + row.to_dx + vector * V);
    }
  }

  // The sums of a block's rows, one after the other, to `partial` [dweight and dbias, C]. In shared memory, where
  // nobody needs the weights any more, neighbouring threads have neighbouring words, [dweight and dbias, V, vectors]:
  // no two meet in a bank.
  __device__ void Store(const NormGradArgs<T>& args, C* shared, C* partial) const {
    for (uint32_t g = 0; g < blockDim.y; g++) {
      __syncthreads();
      if (g != threadIdx.y) continue;
#pragma unroll
      for (int i = 0; i < U * kSums; i++) {
        int u = i / kSums, sum = i % kSums, vector = u * int(blockDim.x) + int(threadIdx.x);
        if (vector >= args.groups.vectors) continue;
        Pack<C, V> total;  // [V]
#pragma unroll
        for (int v = 0; v < V; v++) {
          C& below = shared[(sum * V + v) * args.groups.vectors + vector];
          total.v[v] = sum ? dbias[u][v] : dweight[u][v];
          if (g > 0) total.v[v] += below;
          if (g + 1 < blockDim.y) below = total.v[v];
        }
        if (g + 1 == blockDim.y) *reinterpret_cast<Pack<C, V>*>(partial + sum * args.columns + vector * V) = total;
      }
    }
  }
};

// `wide`: for rows that do not fit narrow blocks.
template <bool center, class T, int U, bool wide>
__global__ void __launch_bounds__(wide ? kGradLimits.threads : kNarrowGrad, (GradResidents<center, T>(U, wide)))
    NormGradInRegisters(const __grid_constant__ NormGradArgs<T> args) {
  using C = Compute<T>;
  LetNextStart();
  constexpr int kSums = center ? 2 : 1;
  constexpr bool kAhead = !wide || U <= 2;  // the next row is loaded while this one is worked on, where registers allow
  extern __shared__ __align__(16) unsigned char shared[];  // first the weights, then sums
  __shared__ RowSumBuffer<C, kSums> buffer;
  int64_t first = int64_t(blockIdx.x) * blockDim.y, stride = int64_t(gridDim.x) * blockDim.y;
  SharedWeights<T> weights{reinterpret_cast<Pack16<C>*>(shared), args.groups.vectors};
  GradColumns<center, T, U> columns;
  GradRow<center, T, U> row, next;
  row.Load(args, first + threadIdx.y);
  weights.Load(args.weight);
  __syncthreads();
  int turn = 0;
  for (; first < args.at.steps; first += stride, turn ^= 1) {
    if constexpr (kAhead) next.Load(args, first + stride + threadIdx.y);
    Vector<T> add[U] = {};  // [U, V]
    if (args.add && row.to_dx >= 0) LoadVectors(args.add + row.to_add, args.groups.vectors, add);
    C means[kSums] = {};
    columns.AddRow(weights, row, means);
    SumOverRow(means, buffer, turn);
    row.KeepPacked();
#pragma unroll
    for (int n = 0; n < kSums; n++) means[n] *= args.share;
    if (row.to_dx >= 0) columns.StoreGrad(args, weights, row, add, means);
    if constexpr (kAhead)
      row = next;
    else
      row.Load(args, first + stride + threadIdx.y);
  }
  columns.Store(args, reinterpret_cast<C*>(shared), args.partial + int64_t(blockIdx.x) * kSums * args.columns);
}

}  // namespace weft::cuda
