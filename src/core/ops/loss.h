// Cross-entropy over the last dim V, per token; and with the product that makes the logits.
#pragma once
#include "weft/core/base/error.h"

namespace weft {
class Var;

// CrossEntropy      (logits [..., V], targets [...] of i32 or i64); ignore_index, smoothing e
//                   -> loss [...], lse [...], both of the accumulate type.
//                   loss = lse - (1 - e) * logit[target] - e * mean(logits); 0 where target == ignore_index.
// CrossEntropyGrad  (logits, targets, lse, dloss [...]); same -> dlogits [..., V] of logits' dtype:
//                   dloss * (softmax - (1 - e) * onehot - e / V); 0 where ignored.
// LinearCrossEntropy      (x [..., C], w [V, C], targets [...]); same -> loss [...]: of logits x w^T, which a kernel
// need
//                         not hold all at once.
// LinearCrossEntropyGrad  (x, w, targets, dloss [...]); same -> loss [...], dx [..., C] of x's dtype, dw [V, C] of the
//                         accumulate type. Both are made by Fuse (core/compile/fuse.h).

struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double smoothing = 0;
};
// Per-token losses; sum them and divide by the number of targets that are not ignored.
Var CrossEntropy(Var logits, Var targets, const CrossEntropyOptions& options = {}, Loc loc = Loc::current());

}  // namespace weft
