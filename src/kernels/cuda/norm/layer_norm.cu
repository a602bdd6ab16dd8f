// LayerNorm and its gradient: norm_forward.cuh and norm_grad.cuh with a mean and a bias.
#include "weft/core/ops/norm.h"

#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/norm/norm_grad.cuh"

namespace weft::cuda {

void AddLayerNorm(KernelTable& table) {
  SetRun(table, Op::kLayerNorm, &NormRow<Op::kLayerNorm, true>);
  SetRun(table, Op::kLayerNormGrad, &NormGradRow<Op::kLayerNormGrad, true, false>);
  SetRun(table, Op::kLayerNormGradAdd, &NormGradRow<Op::kLayerNormGradAdd, true, true>);
}

}  // namespace weft::cuda
