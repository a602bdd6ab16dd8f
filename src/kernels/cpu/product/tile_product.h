// Products of small tiles that sit in cache. 6 rows x 2 vectors of results are kept in registers at a time.
//
// All matrices may be strided. Only the rows of b and c must be contiguous and a multiple of two vectors wide.
#pragma once
#include "weft/kernels/cpu/loops/vector.h"

namespace weft::cpu {

template <class C>
inline constexpr int64_t kLanes = 2 * kWidth<C>;  // columns per step: two vectors

// Element (i, p) of the left factor is data[i * row + p * column].
template <class C>
struct Left {
  const C* data;
  int64_t row, column;
};

template <class C, int kRows>
void TileRows(int64_t k, Left<C> a, const C* b, int64_t ldb, C* c, int64_t ldc, bool add) {
  Vector<C> sum[kRows][2] = {};
  for (int64_t p = 0; p < k; p++) {
    Vector<C> b0 = LoadVector(b + p * ldb), b1 = LoadVector(b + p * ldb + kWidth<C>);
    for (int r = 0; r < kRows; r++) {
      C x = a.data[r * a.row + p * a.column];
      sum[r][0] += x * b0;
      sum[r][1] += x * b1;
    }
  }
  for (int r = 0; r < kRows; r++)
    for (int64_t v = 0; v < 2; v++) {
      C* to = c + r * ldc + v * kWidth<C>;
      StoreVector(to, add ? LoadVector(to) + sum[r][v] : sum[r][v]);
    }
}

// Computes c [m, n] = a [m, k] b [k, n], or adds to c with `add`. n must be a multiple of kLanes<C>.
template <class C>
void TileProduct(int64_t m, int64_t n, int64_t k, Left<C> a, const C* b, int64_t ldb, C* c, int64_t ldc, bool add) {
  constexpr int kRows = 6;
  for (int64_t j = 0; j < n; j += kLanes<C>) {
    int64_t i = 0;
    for (; i + kRows <= m; i += kRows)
      TileRows<C, kRows>(k, {a.data + i * a.row, a.row, a.column}, b + j, ldb, c + i * ldc + j, ldc, add);
    Left<C> rest{a.data + i * a.row, a.row, a.column};
    switch (m - i) {
      case 5:
        TileRows<C, 5>(k, rest, b + j, ldb, c + i * ldc + j, ldc, add);
        break;
      case 4:
        TileRows<C, 4>(k, rest, b + j, ldb, c + i * ldc + j, ldc, add);
        break;
      case 3:
        TileRows<C, 3>(k, rest, b + j, ldb, c + i * ldc + j, ldc, add);
        break;
      case 2:
        TileRows<C, 2>(k, rest, b + j, ldb, c + i * ldc + j, ldc, add);
        break;
      case 1:
        TileRows<C, 1>(k, rest, b + j, ldb, c + i * ldc + j, ldc, add);
        break;
      default:
        break;
    }
  }
}

}  // namespace weft::cpu
