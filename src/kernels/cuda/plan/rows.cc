#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {

int64_t ColumnsOf(const TensorView& x) { return x.dim(x.rank - 1).extent; }
int64_t RowCount(const TensorView& x) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < x.rank; d++) rows *= x.dim(d).extent;
  return rows;
}

}  // namespace weft::cuda
