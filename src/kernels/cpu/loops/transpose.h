// Transposes tiles that fit in cache.
#pragma once
#include "weft/kernels/cpu/loops/vector.h"

namespace weft::cpu {

// y[j][i] = x[i][j] for an 8 x 8 block: interleaves single elements, then pairs, then halves of the vectors.
inline void Transpose8x8(const float* x, int64_t ldx, float* y, int64_t ldy) {
  using V = Vector<float>;
  V r[8], s[8];
  for (int64_t i = 0; i < 8; i++) r[i] = LoadVector(x + i * ldx);
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      r[i + 2 * j] = __builtin_shufflevector(s[i + j], s[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 2 * j + 1] = __builtin_shufflevector(s[i + j], s[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int64_t j = 0; j < 4; j++) {
    StoreVector(y + j * ldy, __builtin_shufflevector(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    StoreVector(y + (j + 4) * ldy, __builtin_shufflevector(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

// y[j][i] = x[i][j] for i < rows, j < columns.
template <class C>
void TransposeTile(const C* x, int64_t ldx, int64_t rows, int64_t columns, C* y, int64_t ldy) {
  int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (sizeof(C) == 4) {
    whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;
    for (int64_t i = 0; i < whole_rows; i += 8)
      for (int64_t j = 0; j < whole_columns; j += 8) Transpose8x8(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
  }
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j++) y[j * ldy + i] = x[i * ldx + j];
}

}  // namespace weft::cpu
