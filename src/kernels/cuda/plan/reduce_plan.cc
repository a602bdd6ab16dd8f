#include "weft/kernels/cuda/plan/reduce_plan.h"

#include <algorithm>

namespace weft::cuda {
namespace {

constexpr int64_t kEnough = 4 * kProcessors;    // blocks that keep the GPU busy
constexpr int64_t kShortest = kReduceDown * 4;  // minimum terms per part

// The number of pieces follows from the size of the tensor, so the order of the sum is fixed.
constexpr int64_t kPiece = 16384;                 // elements per block, up to kMostPieces blocks
constexpr int64_t kMostPieces = 4 * kProcessors;  // more would leave the GPU half empty at the end

}  // namespace

ReducePlan::ReducePlan(const KernelCall& call) {
  const TensorView &x = call.in[0], &y = call.out[0];
  int which = int(call.attrs->Int("dim"));
  for (int d = 0, o = 0; d < x.rank; d++)
    if (d != which) {
      kept.Add(x.dim(d).extent, {y.dim(o).stride, x.dim(d).stride});
      o++;
    }
  kept.Collapse();
  dim = {x.data, x.dim(which).extent, x.dim(which).stride};
  columns = kept.rank > 0 && kept.inner_stride(1) == 1 && kept.inner_extent() >= kWarp;
  int64_t tiles = CeilDiv(outputs(), kWarp * 16 / int64_t(SizeOf(x.dtype)));
  if (columns)
    parts = std::clamp<int64_t>(kEnough / std::max<int64_t>(tiles, 1), 1, std::max<int64_t>(dim.length / kShortest, 1));
}

size_t ReduceWorkspace(const KernelCall& call) {
  ReducePlan plan(call);
  return plan.parts > 1 ? size_t(plan.parts * plan.outputs()) * sizeof(double) : 0;
}

int64_t SquarePieces(const KernelCall& call) {
  return std::clamp<int64_t>(CeilDiv(call.in[0].NumElements(), kPiece), 1, kMostPieces);
}

size_t SumOfSquaresWorkspace(const KernelCall& call) { return size_t(SquarePieces(call)) * sizeof(double); }

}  // namespace weft::cuda
