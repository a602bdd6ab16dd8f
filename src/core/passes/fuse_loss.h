// FuseLoss: fuses the product that makes logits, their cross-entropy and its gradients into one op, so that a device
// need not hold all logits:
//
//   einsum(x, w) -> cross_entropy -> cross_entropy_grad -> einsum, einsum   becomes linear_cross_entropy_grad
//   einsum(x, w) -> cross_entropy                                           becomes linear_cross_entropy
//
// This requires that nothing else reads the logits, their log-sum-exp or their gradient, and that the gradient of the
// losses does not depend on the logits. Then that gradient is known first, and one pass computes the losses and the
// gradients.
#pragma once
#include "weft/core/ir/local_program.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

LocalProgram FuseLoss(const LocalProgram& program, const KernelTable& kernels);

}  // namespace weft
