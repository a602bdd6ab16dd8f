// Optimizer updates, fused over one parameter.
#pragma once
#include <array>

#include "weft/core/base/error.h"

namespace weft {
class Var;

// AdamW  (p, m, v, g all of one shape; lr, scale scalars of the accumulate type; updates: i64 scalar, the number of
//        this update from 1, or 0: none, and the results are p, m, v bit for bit, whatever g and scale hold); beta1,
//        beta2, eps, weight_decay -> p', m', v' in the dtypes of p, m, v. May run in place. Loshchilov, Hutter 2019:
//        g' = g * scale; m' = beta1 m + (1 - beta1) g'; v' = beta2 v + (1 - beta2) g'^2;
//        p' = p - lr * (m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay * p)

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};
std::array<Var, 3> AdamW(Var p, Var m, Var v, Var g, Var lr, Var scale, Var updates, const AdamWOptions& options,
                         Loc loc = Loc::current());

}  // namespace weft
