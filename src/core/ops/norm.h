// Norms over the last dim C. Statistics, weight, bias and their gradients have the accumulate type (f32; f64 for f64).
// A weight is near 1, and in bf16 it would lose the updates of a dozen steps.
#pragma once
#include "weft/core/base/error.h"

namespace weft {
class Var;

// RmsNorm        (x [..., C], weight [C]); eps -> y [..., C], rstd [...]
//                rstd = 1 / sqrt(mean(x^2) + eps), y = x * rstd * weight, eps >= 0
// RmsNormGrad    (x, weight, rstd, dy) -> dx [..., C], dweight [C]
// LayerNorm      (x [..., C], weight [C], bias [C]); eps -> y, mean [...], rstd [...]
//                y = (x - mean) * rstd * weight + bias
// LayerNormGrad  (x, weight, mean, rstd, dy) -> dx, dweight, dbias
// ...GradAdd     the gradient with one more operand [..., C], which is added to dx; made by Fuse (core/passes/fuse.h)

Var RmsNorm(Var x, Var weight, double eps, Loc loc = Loc::current());
Var LayerNorm(Var x, Var weight, Var bias, double eps, Loc loc = Loc::current());

}  // namespace weft
