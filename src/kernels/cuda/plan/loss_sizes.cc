#include "weft/kernels/cuda/plan/loss_sizes.h"

#include <algorithm>

#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {

int64_t PartsOfRow(int64_t rows, int64_t vectors) {
  int64_t parts = std::min<int64_t>(kLossBlocks / std::max<int64_t>(rows, 1), kWarp);
  return parts > 1 && vectors / parts >= 4 * kUnroll * kLossThreads ? parts : 1;
}

size_t LossWorkspace(const KernelCall& call) {
  const TensorView& logits = call.in[0];
  if (logits.NumElements() == 0) return 0;
  // With vectors of one element, which give the most parts.
  int64_t rows = RowCount(logits), parts = PartsOfRow(rows, ColumnsOf(logits));
  return parts > 1 ? size_t(rows * parts) * kKnownOfPart * SizeOf(AccumulateType(logits.dtype)) : 0;
}

}  // namespace weft::cuda
