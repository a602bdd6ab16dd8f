#include "weft/core/ops/losses.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

// Sums in the accumulate type.
Var Reduce(const Var& loss, Reduction reduction, const Loc& loc) {
  if (reduction == Reduction::kNone) return loss;
  if (reduction == Reduction::kMean) return Mean(loss, loc);
  return Cast(SumAll(Cast(loss, AccumulateType(loss.dtype()))), loss.dtype());
}
Var Constant(double value, const Var& like) { return Full(value, like.dtype(), {}); }

// log(1 + exp(-x)) = m + log1p(exp(-m) - 1 + exp(-x - m)) with m = max(-x, 0) as a constant. One of the exponentials is
// 1, and the derivative is right at 0 too.
Var SoftplusOfNegative(const Var& x) {
  Var m = StopGradient(Relu(-x));
  return m + Log1p(Expm1(-m) + Exp(-x - m));
}

}  // namespace

Var MseLoss(Var input, Var target, Reduction reduction, Loc loc) {
  LineScope line(loc);
  return Reduce(Square(input - target), reduction, loc);
}
Var L1Loss(Var input, Var target, Reduction reduction, Loc loc) {
  LineScope line(loc);
  return Reduce(Abs(input - target), reduction, loc);
}
Var HuberLoss(Var input, Var target, double delta, Reduction reduction, Loc loc) {
  WEFT_CHECK(delta > 0,
             fmt::format("huber_loss at {}: expected delta > 0, got {}; PyTorch's default is 1", ToString(loc), delta));
  LineScope line(loc);
  Var distance = Abs(input - target), near = ClampMax(distance, delta);
  return Reduce(near * (distance - Scale(near, 0.5)), reduction, loc);
}
Var SmoothL1Loss(Var input, Var target, double beta, Reduction reduction, Loc loc) {
  WEFT_CHECK(beta >= 0, fmt::format("smooth_l1_loss at {}: expected beta >= 0, got {}; PyTorch's default is 1",
                                    ToString(loc), beta));
  if (beta == 0) return L1Loss(input, target, reduction, loc);
  LineScope line(loc);
  return Reduce(Scale(HuberLoss(input, target, beta, Reduction::kNone, loc), 1 / beta), reduction, loc);
}

Var BceWithLogitsLoss(Var input, Var target, Reduction reduction, Var positive_weight, Loc loc) {
  LineScope line(loc);
  Var softplus = SoftplusOfNegative(input);
  if (positive_weight.defined()) softplus = softplus * AddScalar((positive_weight - 1) * target, 1);
  return Reduce((1 - target) * input + softplus, reduction, loc);
}

Var NllLoss(Var log_probabilities, Var target, Reduction reduction, Var weight, int64_t ignore_index, Loc loc) {
  LineScope line(loc);
  const Var& x = log_probabilities;
  int dim = x.rank() == 1 ? 0 : 1;  // of the classes
  WEFT_CHECK(x.rank() > 0 && target.rank() == x.rank() - 1,
             fmt::format("nll_loss at {}: expected log-probabilities with one dim more than the targets, that of the "
                         "classes, got {} and {}; targets are ids",
                         ToString(loc), ToString(x), ToString(target)));
  WEFT_CHECK(!weight.defined() || (weight.rank() == 1 && weight.dim(0) == x.dim(dim)),
             fmt::format("nll_loss at {}: expected weights of {} classes, got {}; give one for each class",
                         ToString(loc), x.dim(dim), weight.defined() ? ToString(weight) : ""));
  Var loss = -Squeeze(Gather(x, Unsqueeze(target, dim), dim), dim);
  Var counts = Ne(target, Full(double(ignore_index), target.dtype(), {}));
  Var weights = Cast(counts, x.dtype());
  if (weight.defined()) weights = weights * Squeeze(Embedding(Unsqueeze(weight, 1), target), target.rank());
  loss = Select(counts, loss * weights, Constant(0, x));
  if (reduction != Reduction::kMean) return Reduce(loss, reduction, loc);
  return Reduce(loss, Reduction::kSum, loc) / Reduce(weights, Reduction::kSum, loc);
}

Var KlDivLoss(Var input, Var target, Reduction reduction, bool log_target, Loc loc) {
  LineScope line(loc);
  if (log_target) return Reduce(Exp(target) * (target - input), reduction, loc);
  Var positive = Select(Gt(target, Constant(0, target)), target, Constant(1, target));
  return Reduce(target * Log(positive) - target * input, reduction, loc);
}

}  // namespace weft
