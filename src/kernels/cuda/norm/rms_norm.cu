// RmsNorm and its gradient: norm_forward.cuh and norm_grad.cuh without mean and bias.
#include "weft/core/ops/norm.h"

#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/norm/norm_grad.cuh"

namespace weft::cuda {

void AddRmsNorm(KernelTable& table) {
  // In place: a row is read before it is written, and weights are read or copied before anything lies on them.
  table.Add(Op::kRmsNorm, {.run = &NormRow<Op::kRmsNorm, false>, .workspace = &NormWorkspace, .in_place = true});
  table.Add(
      Op::kRmsNormGrad,
      {.run = &NormGradRow<Op::kRmsNormGrad, false, false>, .workspace = &NormGradWorkspace<false>, .in_place = true});
  table.Add(Op::kRmsNormGradAdd, {.run = &NormGradRow<Op::kRmsNormGradAdd, false, true>,
                                  .workspace = &NormGradWorkspace<false>,
                                  .in_place = true});
}

}  // namespace weft::cuda
