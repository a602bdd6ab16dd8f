// Optimizer updates, fused over one parameter.
#pragma once
#include <array>

#include "weft/core/base/error.h"
#include "weft/core/ir/op.h"

namespace weft {
class Var;

// Each op takes, in this order:
// - the parameter p, its optimizer state (listed per op below) and the gradient g, all of one shape;
// - lr and scale, scalars of the accumulate type;
// - updates, an i64 scalar t: the number of this update, counted from 1. With 0 there is no update: the results are the
//   operands bit for bit, whatever g and scale hold.
// It returns p' and the new state in the operands' dtypes, and may run in place. g' = g * scale. With the attribute
// `dtype` it also returns p' in that dtype, as a cast of p' would.
//
// AdamW  state m, v (Loshchilov, Hutter 2019):
//        m' = beta1 m + (1 - beta1) g'; v' = beta2 v + (1 - beta2) g'^2;
//        p' = p - lr * (m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay * p)
// Sgd    state buf, or none without momentum (as in PyTorch; buf starts with zeros):
//        d = g' + weight_decay * p; buf' = momentum * buf + d;
//        p' = p - lr * buf', or with Nesterov p' = p - lr * (d + momentum * buf')
// Lion   state m (Chen et al. 2023):
//        p' = p - lr * (sign(beta1 m + (1 - beta1) g') + weight_decay * p); m' = beta2 m + (1 - beta2) g'

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
