// Losses under PyTorch's names, composed of other ops. CrossEntropy, which has kernels of its own, is in loss.h.
#pragma once
#include "weft/core/ir/node.h"

namespace weft {

// Whether a loss is returned per element, or as the mean or the sum over all elements.
enum class Reduction : uint8_t { kNone, kMean, kSum };

// (input - target)^2 and |input - target|.
Var MseLoss(Var input, Var target, Reduction reduction = Reduction::kMean, Loc loc = Loc::current());
Var L1Loss(Var input, Var target, Reduction reduction = Reduction::kMean, Loc loc = Loc::current());
// With d = |input - target|: d^2 / 2 if d < delta, else delta (d - delta / 2). SmoothL1Loss is HuberLoss with
// delta = beta, divided by beta. For beta = 0 it is L1Loss.
Var HuberLoss(Var input, Var target, double delta = 1, Reduction reduction = Reduction::kMean,
              Loc loc = Loc::current());
Var SmoothL1Loss(Var input, Var target, double beta = 1, Reduction reduction = Reduction::kMean,
                 Loc loc = Loc::current());
// -(w target log(sigmoid(input)) + (1 - target) log(1 - sigmoid(input))). w is `positive_weight`, 1 if it is empty. It
// is broadcast.
Var BceWithLogitsLoss(Var input, Var target, Reduction reduction = Reduction::kMean, Var positive_weight = {},
                      Loc loc = Loc::current());
// -w[target] log_probabilities[target], of log_probabilities [C] and target [], or [N, C, ...] and [N, ...]. w is
// `weight` [C], 1 if it is empty. A target that equals `ignore_index` gives 0. The mean is divided by the sum of the
// weights of all targets that count.
Var NllLoss(Var log_probabilities, Var target, Reduction reduction = Reduction::kMean, Var weight = {},
            int64_t ignore_index = -100, Loc loc = Loc::current());
// target (log(target) - input), and 0 - target input where the target is 0. With `log_target`, the target holds
// logarithms. The mean is over all elements.
Var KlDivLoss(Var input, Var target, Reduction reduction = Reduction::kMean, bool log_target = false,
              Loc loc = Loc::current());

}  // namespace weft
