// The kernel of the gradients of RmsNorm and LayerNorm (`center`), for rows that lie in registers. With h = (x - mean)
// * rstd:
//   dx = rstd * (w dy - mean(w dy) - h * mean(w dy h)) [+ add], dweight = sum of dy h, dbias = sum of dy;
// RmsNorm has neither mean nor mean(w dy) nor dbias.
//
// x and dy are read once: each block walks over rows, and every thread keeps the sums of its columns in registers.
#pragma once
#include "kernels/cuda/norm_rows.cuh"

namespace weft::cuda {

template <class T>
struct NormGradArgs {
  const T *x = nullptr, *weight = nullptr, *dy = nullptr, *add = nullptr;  // add may stay null
  T* dx = nullptr;
  const Compute<T>*mean = nullptr, *rstd = nullptr;
  Compute<T>* partial = nullptr;  // [blocks, dweight and dbias, C]
  Walk at;                        // operand 0: x, 1: dy, 2: dx, 3: add
  Walk stats;                     // operand 0: rstd, 1: mean
  RowGroups groups;
  int64_t columns = 0;
};

// One row as its threads hold it; beyond the last row all zero, which adds nothing to the sums.
template <bool center, class T, int U>
struct GradRow {
  Pack16<T> x[U], dy[U];  // [U, kPack]
  Compute<T> mean = 0, rstd = 0;

  __device__ __forceinline__ void Load(const NormGradArgs<T>& args, int64_t row, int lane) {
    if (row < args.at.steps) {
      Place at = args.at.At(uint32_t(row)), stats = args.stats.At(uint32_t(row));
      LoadVectors(args.x + at.of[0], args.groups, lane, x);
      LoadVectors(args.dy + at.of[1], args.groups, lane, dy);
      rstd = args.rstd[stats.of[0]];
      if constexpr (center) mean = args.mean[stats.of[1]];
    } else {
#pragma unroll
      for (int u = 0; u < U; u++) x[u] = dy[u] = Pack16<T>{};
    }
  }
  __device__ __forceinline__ Compute<T> Normed(int u, int v) const { return (Widen(x[u].v[v]) - mean) * rstd; }
};

// What a thread adds up over rows, and its vectors of the weight.
template <bool center, class T, int U>
struct GradColumns {
  using C = Compute<T>;
  Pack16<T> weight[U];                                   // [U, kPack]
  C dweight[U][kPack<T>] = {}, dbias[U][kPack<T>] = {};  // [U, kPack]; dbias is dropped by the compiler where unused

  // Adds a row and returns the thread's terms of mean(w dy h) and mean(w dy).
  __device__ __forceinline__ void AddRow(const GradRow<center, T, U>& row, const RowGroups& groups, int lane,
                                         C (&dot)[center ? 2 : 1]) {
#pragma unroll
    for (int u = 0; u < U; u++) {
#pragma unroll
      for (int v = 0; v < kPack<T>; v++) {
        C h = row.Normed(u, v), dy = Widen(row.dy[u].v[v]), along = Widen(weight[u].v[v]) * dy;
        dot[0] += along * h;
        dweight[u][v] += dy * h;
        if constexpr (center) dot[1] += along, dbias[u][v] += dy;
      }
    }
  }

  // The sums of the rows' groups of a block, one group after the other, to `partial` [dweight and dbias, C].
  __device__ void Store(const NormGradArgs<T>& args, int lane, C* shared, C* partial) const {
    int group = int(threadIdx.x) / args.groups.threads, last = args.groups.rows - 1;
    for (int g = 0; g <= last; g++) {
      if (g > 0) __syncthreads();
      if (g != group) continue;
#pragma unroll
      for (int u = 0; u < U; u++) {
        int vector = u * args.groups.threads + lane;
        if (vector >= args.groups.vectors) continue;
#pragma unroll
        for (int i = 0; i < (center ? 2 : 1) * kPack<T>; i++) {
          int64_t at = int64_t(vector) * kPack<T> + i % kPack<T> + i / kPack<T> * args.columns;
          C sum = i < kPack<T> ? dweight[u][i % kPack<T>] : dbias[u][i % kPack<T>];
          if (g > 0) sum += shared[at];
          (g == last ? partial : shared)[at] = sum;
        }
      }
    }
  }
};

template <bool center, class T, int U>
__device__ __forceinline__ void StoreGrad(const NormGradArgs<T>& args, const Pack16<T> (&add)[U],
                                          const GradRow<center, T, U>& row, const Pack16<T> (&weight)[U],
                                          const Compute<T> (&means)[center ? 2 : 1], int lane, T* dx) {
#pragma unroll
  for (int u = 0; u < U; u++) {
    int vector = u * args.groups.threads + lane;
    if (vector >= args.groups.vectors) break;
    Pack16<T> d;  // [kPack]
#pragma unroll
    for (int v = 0; v < kPack<T>; v++) {
      Compute<T> along = Widen(weight[u].v[v]) * Widen(row.dy[u].v[v]) - row.Normed(u, v) * means[0];
      if constexpr (center) along -= means[1];
      d.v[v] = Narrow<T>(row.rstd * along + Widen(add[u].v[v]));
    }
    reinterpret_cast<Pack16<T>*>(dx)[vector] = d;
  }
}

template <bool center, class T, int U>
__global__ void __launch_bounds__(512) NormGradInRegisters(const __grid_constant__ NormGradArgs<T> args) {
  using C = Compute<T>;
  constexpr int kSums = center ? 2 : 1;
  constexpr bool kAhead = U <= 2;  // the next row is loaded while this one is worked on, where registers allow
  extern __shared__ __align__(16) unsigned char groups_sums[];
  __shared__ RowSumBuffer<C, kSums> buffer;
  const RowGroups& groups = args.groups;
  int lane = int(threadIdx.x) % groups.threads;
  int64_t first = int64_t(blockIdx.x) * groups.rows, stride = int64_t(gridDim.x) * groups.rows;
  int64_t group = threadIdx.x / uint32_t(groups.threads);
  GradColumns<center, T, U> columns;
  LoadVectors(args.weight, groups, lane, columns.weight);
  GradRow<center, T, U> row, next;
  row.Load(args, first + group, lane);
  int turn = 0;
  for (; first < args.at.steps; first += stride, turn ^= 1) {
    if constexpr (kAhead) next.Load(args, first + stride + group, lane);
    bool live = first + group < args.at.steps;
    Place at = args.at.At(live ? uint32_t(first + group) : 0);
    Pack16<T> add[U] = {};  // [U, kPack]
    if (args.add && live) LoadVectors(args.add + at.of[3], groups, lane, add);
    C means[kSums] = {};
    columns.AddRow(row, groups, lane, means);
    SumOverRow(means, groups.threads, buffer, turn);
#pragma unroll
    for (int n = 0; n < kSums; n++) means[n] /= C(args.columns);
    if (live) StoreGrad(args, add, row, columns.weight, means, lane, args.dx + at.of[2]);
    if constexpr (kAhead)
      row = next;
    else
      row.Load(args, first + stride + group, lane);
  }
  C* partial = args.partial + int64_t(blockIdx.x) * kSums * args.columns;
  columns.Store(args, lane, reinterpret_cast<C*>(groups_sums), partial);
}

}  // namespace weft::cuda
