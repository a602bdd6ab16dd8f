// Copies whose source is contiguous along another loop than the target. They go through tiles in shared memory, so that
// both sides are accessed in whole sectors.
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {

inline constexpr int kTransposeTile = 64, kTransposeLanes = 32, kTransposeRows = 8;  // 32 x 8 threads, 16 elements each
inline constexpr int64_t kTransposeLeast = 8;  // below it tiles are mostly empty, and caches do as well
template <class Bits>
inline constexpr int64_t kSector = 32 / int64_t(sizeof(Bits));  // elements that memory moves at once

// y[i sy + j] = x[j sx + i] for i < rows and j < columns, for every step of the outer loops.
template <class Bits>
struct TransposeArgs {
  Bits* y;
  const Bits* x;
  int64_t sy, sx, rows, columns;
  FastDivide column_tiles{}, row_tiles{};  // division by the numbers of tiles
  uint32_t num_column_tiles = 0, num_row_tiles = 0;
  int64_t tile_columns = kTransposeTile;
  Walk outer{};  // operand 0: y, 1: x

  // The tile of one block: its start, and the rows and columns that exist.
  struct Tile {
    Bits* y;
    const Bits* x;
    int rows, columns;
  };
  __device__ __forceinline__ Tile TileAt(uint32_t block) const {
    constexpr int64_t n = kTransposeTile;
    const int64_t m = tile_columns;
    uint32_t strip = column_tiles(block), step = row_tiles(strip);
    int64_t j = (block - strip * num_column_tiles) * m, i = (strip - step * num_row_tiles) * n;
    Place at = outer.At(step);
    return {y + at.of[0] + i * sy + j, x + at.of[1] + j * sx + i, int(min(n, rows - i)), int(min(m, columns - j))};
  }
};

template <class Bits>
__global__ void __launch_bounds__(kTransposeLanes* kTransposeRows)
    TransposeKernel(const __grid_constant__ TransposeArgs<Bits> args) {
  constexpr int n = kTransposeTile;
  // One bank of padding, so that the elements of a column of the tile lie in different banks.
  constexpr int kPadded = n + (sizeof(Bits) < 4 ? 4 / int(sizeof(Bits)) : 1);
  __shared__ Bits tile[n][kPadded];  // [columns, rows]
  auto [y, x, rows, columns] = args.TileAt(blockIdx.x);
  int lane = int(threadIdx.x) % kTransposeLanes, first = int(threadIdx.x) / kTransposeLanes;
  constexpr int kSteps = n / kTransposeRows, kHalves = n / kTransposeLanes;
  Bits held[kSteps][kHalves] = {};  // all loads are in flight before the first is stored
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < kHalves; h++) {
      int j = first + s * kTransposeRows, i = lane + h * kTransposeLanes;
      if (j < columns && i < rows) held[s][h] = x[j * args.sx + i];
    }
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < kHalves; h++) tile[first + s * kTransposeRows][lane + h * kTransposeLanes] = held[s][h];
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < kHalves; h++) {
      int i = first + s * kTransposeRows, j = lane + h * kTransposeLanes;
      if (j < columns && i < rows) y[i * args.sy + j] = tile[j][i];
    }
}

// Does the same as TransposeKernel for elements of 16 bits, two at a time. Words along i are read at two neighbouring j
// and regrouped into words along j. Each block takes `wide` tiles along j.
template <int wide>
__global__ void __launch_bounds__(kTransposeLanes* kTransposeRows)
    TransposePairs(const __grid_constant__ TransposeArgs<uint16_t> args) {
  constexpr int n = kTransposeTile / 2, kSteps = n / kTransposeRows;
  static_assert(n == kTransposeLanes);
  __shared__ uint32_t tile[2][n][wide * n + 1];  // [i % 2, i / 2, j / 2]
  auto [y, x, rows, columns] = args.TileAt(blockIdx.x);
  int lane = int(threadIdx.x) % kTransposeLanes, first = int(threadIdx.x) / kTransposeLanes;
  uint32_t held[wide * kSteps][2] = {};  // [j / 2, j % 2]
#pragma unroll
  for (int s = 0; s < wide * kSteps; s++)
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      int j = 2 * (first + s * kTransposeRows) + odd, i = 2 * lane;
      if (j < columns && i < rows) held[s][odd] = *reinterpret_cast<const uint32_t*>(x + j * args.sx + i);
    }
#pragma unroll
  for (int s = 0; s < wide * kSteps; s++) {
    tile[0][lane][first + s * kTransposeRows] = __byte_perm(held[s][0], held[s][1], 0x5410);
    tile[1][lane][first + s * kTransposeRows] = __byte_perm(held[s][0], held[s][1], 0x7632);
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int part = 0; part < 2 * wide; part++) {
      int odd = part / wide, half = first + s * kTransposeRows, word = lane + part % wide * n;
      int i = 2 * half + odd, j = 2 * word;
      if (j < columns && i < rows) *reinterpret_cast<uint32_t*>(y + i * args.sy + j) = tile[odd][half][word];
    }
}

// Returns whether all words of two elements lie within rows and columns and are aligned.
inline bool InPairs(const TransposeArgs<uint16_t>& args, const Nest& outer) {
  int64_t odd = args.sy | args.sx | args.rows | args.columns;
  for (int d = 0; d < outer.rank; d++) odd |= outer.strides[size_t(d)][0] | outer.strides[size_t(d)][1];
  auto address = reinterpret_cast<uintptr_t>(args.x) | reinterpret_cast<uintptr_t>(args.y);
  return odd % 2 == 0 && address % sizeof(uint32_t) == 0;
}

// Returns the loop along which the source (operand 1) is contiguous, if only the target (operand 0) is contiguous along
// the innermost one. Returns -1 if there is none or tiles would not pay.
inline int TransposedLoop(const Nest& nest) {
  if (nest.rank < 2 || nest.inner_stride(0) != 1 || nest.inner_stride(1) < 2) return -1;
  if (nest.inner_extent() < kTransposeLeast) return -1;
  for (int d = nest.rank - 2; d >= 0; d--)
    if (nest.strides[size_t(d)][1] == 1) return nest.extents[size_t(d)] < kTransposeLeast ? -1 : d;
  return -1;
}

template <class Bits>
void CopyTransposed(const KernelCall& call, const Nest& nest, int row, Bits* y, const Bits* x) {
  size_t i = size_t(row), j = size_t(nest.rank - 1);
  Nest outer(2);
  for (size_t d = 0; d < j; d++)
    if (d != i) outer.Add(nest.extents[d], nest.strides[d]);
  outer.Collapse();
  TransposeArgs<Bits> args{.y = y,
                           .x = x,
                           .sy = nest.strides[i][0],
                           .sx = nest.strides[j][1],
                           .rows = nest.extents[i],
                           .columns = nest.extents[j]};
  auto* kernel = &TransposeKernel<Bits>;
  if constexpr (sizeof(Bits) == 2)
    if (InPairs(args, outer)) {
      // If rows of y begin within a sector, a block writes part of a sector at both ends of its rows. A part costs
      // memory at least as much as a whole sector, and wider blocks have fewer ends.
      int wide = args.sy % kSector<Bits> != 0 && args.columns > kTransposeTile ? 2 : 1;
      kernel = wide == 2 ? &TransposePairs<2> : &TransposePairs<1>;
      args.tile_columns = wide * kTransposeTile;
    }
  args.num_column_tiles = uint32_t(CeilDiv(args.columns, args.tile_columns));
  args.num_row_tiles = uint32_t(CeilDiv(args.rows, kTransposeTile));
  args.column_tiles = FastDivide(args.num_column_tiles);
  args.row_tiles = FastDivide(args.num_row_tiles);
  // Tiles have at least 64 elements, so a tensor with more than 2^31 tiles does not fit on a device.
  ForEachWalk(outer, {}, [&](const Walk& walk) {
    args.outer = walk;
    unsigned blocks = walk.steps * args.num_row_tiles * args.num_column_tiles;
    kernel<<<blocks, kTransposeLanes * kTransposeRows, 0, DeviceOf(call).stream()>>>(args);
    WEFT_CUDA_LAUNCHED("transpose");
  });
}

}  // namespace weft::cuda
