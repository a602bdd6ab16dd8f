// Sums along rows, in f64 for every compute type, and sums over rows in an order that does not depend on the number of
// threads.
#pragma once
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Returns the sum of term(i) for i in [0, n): 16 running f64 sums, so that the loop vectorises, then a tree.
template <class Fn>
double SumOf(int64_t n, Fn&& term) {
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; j++) lanes[j] += double(term(i + j));
  for (; i < n; i++) lanes[i % kLanes] += double(term(i));
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t j = 0; j < width; j++) lanes[j] += lanes[j + width];
  return lanes[0];
}

// Rows split into at most 16 blocks, which depend only on the number of rows. Each block adds up its own f64 partial of
// `columns` sums.
struct RowBlocks {
  int64_t rows, block, count;
  explicit RowBlocks(int64_t num_rows)
      : rows(num_rows), block(std::max<int64_t>(32, CeilDiv(num_rows, 16))), count(CeilDiv(num_rows, block)) {}
};

// y[c] = sum over blocks of partial[block][c], in order.
inline void AddUpBlocks(const double* partial, int64_t blocks, int64_t stride, int64_t columns, double* y) {
  std::fill(y, y + columns, 0.0);
  for (int64_t b = 0; b < blocks; b++)
    for (int64_t c = 0; c < columns; c++) y[c] += partial[b * stride + c];
}

}  // namespace weft::cpu
