// Grad: reverse-mode differentiation. It emits ordinary nodes through the current builder, so it nests, and it works
// both on a traced graph and on the eager tape. It runs before Partition, so no collective ever needs a derivative.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "weft/core/ir/node.h"

namespace weft {

struct GradOptions {
  Var seed{};  // the gradients are multiplied by it; empty: 1
  // The type in which gradients of parameters are summed over tokens, micro-batches and ranks. If a parameter is used
  // in another type, the ops whose derivative is a sum (products, lookups, broadcasts) return it in the accumulate
  // type, and the gradient keeps that type through the casts of the parameter. Empty: a gradient has the type of its
  // value.
  std::optional<DType> parameter_sums{};
};

// Returns the gradients of a scalar with respect to each of `wrt`, and zeros for a value that it does not depend on.
//
// Every intermediate cotangent is resharded to the dual of its primal's placement, so that none exists at global size.
// Exempt are the outputs of reshards and broadcasts, and values computed only from parameters and generators.
//
// Throws Error unless the loss is a floating-point scalar and the seed, if any, a scalar of its dtype. Also throws
// Error for an eager value in `wrt` that does not require a gradient: it has no history, so a zero would be wrong.
std::vector<Var> Grad(Var loss, std::span<const Var> wrt, const GradOptions& options = {}, Loc loc = Loc::current());
inline std::vector<Var> Grad(Var loss, std::initializer_list<Var> wrt, Loc loc = Loc::current()) {
  return Grad(std::move(loss), std::span(wrt.begin(), wrt.size()), {}, loc);
}

// Returns the gradients of several results with given cotangents: those of sum_i <cotangents[i], results[i]>. The Var
// is empty for a value that is not reached. Throws Error unless each result has a cotangent of its dtype and shape.
std::vector<Var> Vjp(std::span<const Var> results, std::span<const Var> cotangents, std::span<const Var> wrt,
                     Loc loc = Loc::current());

}  // namespace weft
