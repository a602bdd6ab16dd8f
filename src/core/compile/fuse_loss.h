// FuseLoss: the product that makes logits, their cross-entropy and its gradients become one op, so that a device need
// not hold all logits:
//
//   einsum(x, w) -> cross_entropy -> cross_entropy_grad -> einsum, einsum   becomes linear_cross_entropy_grad
//   einsum(x, w) -> cross_entropy                                           becomes linear_cross_entropy
//
// Where nobody else reads the logits or what is made of them, and the gradient of the losses does not depend on the
// losses: it is then known before them, and the losses come out of the same pass.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/core/transforms/partition.h"

namespace weft {

LocalProgram FuseLoss(const LocalProgram& program, const KernelTable& kernels);

}  // namespace weft
