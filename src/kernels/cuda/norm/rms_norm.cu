// RmsNorm and its gradient: norm_forward.cuh and norm_grad.cuh without mean and bias.
#include "weft/core/ops/norm.h"

#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/norm/norm_grad.cuh"

namespace weft::cuda {

void AddRmsNorm(KernelTable& table) {
  SetRun(table, Op::kRmsNorm, &NormRow<Op::kRmsNorm, false>);
  SetRun(table, Op::kRmsNormGrad, &NormGradRow<Op::kRmsNormGrad, false, false>);
  SetRun(table, Op::kRmsNormGradAdd, &NormGradRow<Op::kRmsNormGradAdd, false, true>);
}

}  // namespace weft::cuda
