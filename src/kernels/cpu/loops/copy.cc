#include "weft/kernels/cpu/loops/copy.h"

#include <cstring>

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 32768;
constexpr int64_t kBlock = 16;  // transposes work on blocks of 16 x 16, which are whole cache lines on both sides

template <class Bits>
void CopyRun(Bits* y, int64_t sy, const Bits* x, int64_t sx, int64_t n) {
  if (sy == 1 && sx == 1) {
    std::memcpy(y, x, size_t(n) * sizeof(Bits));
  } else if (sy == 1 && sx == 0) {
    std::fill(y, y + n, x[0]);
  } else {
    for (int64_t i = 0; i < n; i++) y[i * sy] = x[i * sx];
  }
}

// y[i][j] = x[j][i], with row strides sy and sx.
template <class Bits>
void Transpose(Bits* y, int64_t sy, const Bits* x, int64_t sx, int64_t rows, int64_t columns) {
  for (int64_t i0 = 0; i0 < rows; i0 += kBlock)
    for (int64_t j0 = 0; j0 < columns; j0 += kBlock) {
      int64_t i1 = std::min(i0 + kBlock, rows), j1 = std::min(j0 + kBlock, columns);
      for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++) y[i * sy + j] = x[j * sx + i];
    }
}

// Returns the loop along which the source is contiguous, if only the target is contiguous along the innermost one.
// Returns -1 if there is none.
int SourceInnerLoop(const Nest& nest) {
  if (nest.rank < 2 || nest.inner_stride(0) != 1 || nest.inner_stride(1) == 1) return -1;
  for (int d = nest.rank - 2; d >= 0; d--)
    if (nest.strides[size_t(d)][1] == 1) return d;
  return -1;
}

template <class Bits>
void CopyTransposed(const KernelCall& call, const Nest& nest, int swapped, Bits* to, const Bits* from) {
  size_t row = size_t(swapped), column = size_t(nest.rank - 1);
  Nest outer(2);
  for (size_t d = 0; d + 1 < size_t(nest.rank); d++)
    if (d != row) outer.Add(nest.extents[d], nest.strides[d]);
  // A step is a strip of rows of one matrix, so that one large matrix is split over threads as well as many small ones.
  constexpr int64_t kStrip = 4 * kBlock;
  int64_t rows = nest.extents[row], strips = CeilDiv(rows, kStrip), columns = nest.extents[column];
  int64_t grain = std::max<int64_t>(1, kGrain / (kStrip * columns));
  ParallelFor(call, outer.Count() * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t step = begin; step < end; step++) {
      Offsets at = outer.At(step / strips);
      int64_t first = step % strips * kStrip, sy = nest.strides[row][0], sx = nest.strides[column][1];
      Transpose(to + at[0] + first * sy, sy, from + at[1] + first, sx, std::min(kStrip, rows - first), columns);
    }
  });
}

template <class Bits>
void CopyBits(const KernelCall& call, const TensorView& to, const TensorView& from) {
  const TensorView* views[] = {&to, &from};
  Nest nest = Nest::Over(views);
  if (nest.Count() == 0) return;
  Bits* y = to.as<Bits>();
  const Bits* x = from.as<const Bits>();
  if (int swapped = SourceInnerLoop(nest); swapped >= 0) return CopyTransposed(call, nest, swapped, y, x);
  int64_t sy = nest.inner_stride(0), sx = nest.inner_stride(1);
  ParallelFor(call, nest.Count(), kGrain, [&](int64_t begin, int64_t end) {
    ForEachRun(nest, begin, end, end, [&](const Offsets& at, int64_t n) { CopyRun(y + at[0], sy, x + at[1], sx, n); });
  });
}

}  // namespace

void CopyBox(const KernelCall& call, const TensorView& to, const TensorView& from) {
  switch (SizeOf(to.dtype)) {
    case 1:
      return CopyBits<uint8_t>(call, to, from);
    case 2:
      return CopyBits<uint16_t>(call, to, from);
    case 4:
      return CopyBits<uint32_t>(call, to, from);
    default:
      return CopyBits<uint64_t>(call, to, from);
  }
}

void CopySingles(const KernelCall&, const TensorView& to, int64_t stride, std::span<const TensorView> from) {
  size_t bytes = SizeOf(to.dtype);
  for (size_t i = 0; i < from.size(); i++) std::memcpy(to.as<char>() + i * size_t(stride) * bytes, from[i].data, bytes);
}

void ZeroBox(const KernelCall& call, const TensorView& to) {
  alignas(8) static constexpr char kZero[8] = {};
  TensorView zero = to;
  zero.data = const_cast<char*>(kZero);
  for (DimView& dim : zero.dims) dim.stride = 0;
  CopyBox(call, to, zero);
}

}  // namespace weft::cpu
