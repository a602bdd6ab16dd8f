// Cross-entropy per token over the last dim V, and its fusion with the product that makes the logits.
#pragma once
#include "weft/core/base/error.h"

namespace weft {
class Var;

// Dims and types: logits [..., V], x [..., C], w [V, C], targets [...] of i32 or i64. Losses, lse, dloss and shift
// have the accumulate type. All ops but SumExp have the attributes ignore_index and smoothing (e below).
//
// SumExp                  (logits, shift [...]) -> sum over the last dim of exp(logits - shift), [...]
// CrossEntropy            (logits, targets) -> loss [...], lse [...]
//                         loss = lse - (1 - e) * logit[target] - e * mean(logits); 0 if target == ignore_index
// CrossEntropyGrad        (logits, targets, lse, dloss [...]) -> dlogits [..., V] of logits' dtype
//                         dlogits = dloss * (softmax - (1 - e) * onehot - e / V); 0 if target == ignore_index
// LinearCrossEntropy      (x, w, targets) -> loss [...]: the loss of the logits x w^T, which a kernel need not hold all
//                         at once. Made by Fuse (core/passes/fuse.h).
// LinearCrossEntropyGrad  (x, w, targets, dloss [...]) -> loss [...], dx [..., C] of x's dtype, dw [V, C] of the
//                         accumulate type. Made by Fuse.

// Returns the sum over the last dim of exp(x - shift), [...], in the accumulate type. Without `shift` ahead of it, a
// large x would overflow. x: [..., V]; shift: [...] of the accumulate type. Holds no copy of x.
Var SumExp(Var x, Var shift, Loc loc = Loc::current());

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double smoothing = 0;
};
// Returns the loss per token. For the mean, divide their sum by the number of targets that are not ignored. Throws
// Error unless smoothing is in [0, 1).
Var CrossEntropy(Var logits, Var targets, const CrossEntropyOptions& options = {}, Loc loc = Loc::current());

}  // namespace weft
