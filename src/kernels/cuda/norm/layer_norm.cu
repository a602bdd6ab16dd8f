// LayerNorm and its gradient: norm_forward.cuh and norm_grad.cuh with a mean and a bias.
#include "weft/core/ops/norm.h"

#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/norm/norm_grad.cuh"

namespace weft::cuda {

void AddLayerNorm(KernelTable& table) {
  // In place: a row is read before it is written, and weights are read or copied before anything lies on them.
  table.Add(Op::kLayerNorm, {.run = &NormRow<Op::kLayerNorm, true>, .workspace = &NormWorkspace, .in_place = true});
  table.Add(
      Op::kLayerNormGrad,
      {.run = &NormGradRow<Op::kLayerNormGrad, true, false>, .workspace = &NormGradWorkspace<true>, .in_place = true});
  table.Add(Op::kLayerNormGradAdd, {.run = &NormGradRow<Op::kLayerNormGradAdd, true, true>,
                                    .workspace = &NormGradWorkspace<true>,
                                    .in_place = true});
}

}  // namespace weft::cuda
