// Optimizer updates, fused over one parameter.
#pragma once
#include <array>

#include "weft/core/base/error.h"

namespace weft {
class Var;

// Each takes a parameter p, what it keeps of it from step to step, and the gradient g, all of one shape; scalars lr and
// scale of the accumulate type; and updates, an i64 scalar: the number of this update from 1, or 0: none, and the
// results are the operands bit for bit, whatever g and scale hold. It gives p' and what is kept, in the operands'
// dtypes, and may run in place. g' = g * scale.
//
// AdamW  m, v. Loshchilov, Hutter 2019: m' = beta1 m + (1 - beta1) g'; v' = beta2 v + (1 - beta2) g'^2;
//        p' = p - lr * (m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay * p)
// Sgd    buf, or none without momentum. As PyTorch's: d = g' + weight_decay * p; buf' = momentum * buf + d, from a buf
//        of zeros; p' = p - lr * buf', or with Nesterov's p - lr * (d + momentum * buf')
// Lion   m. Chen et al. 2023: p' = p - lr * (sign(beta1 m + (1 - beta1) g') + weight_decay * p);
//        m' = beta2 m + (1 - beta2) g'

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};
std::array<Var, 3> AdamW(Var p, Var m, Var v, Var g, Var lr, Var scale, Var updates, const AdamWOptions& options,
                         Loc loc = Loc::current());

struct SgdOptions {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
};
std::array<Var, 2> Sgd(Var p, Var buf, Var g, Var lr, Var scale, Var updates, const SgdOptions& options,
                       Loc loc = Loc::current());
// Without momentum.
Var Sgd(Var p, Var g, Var lr, Var scale, Var updates, double weight_decay, Loc loc = Loc::current());

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
std::array<Var, 2> Lion(Var p, Var m, Var g, Var lr, Var scale, Var updates, const LionOptions& options,
                        Loc loc = Loc::current());

}  // namespace weft
