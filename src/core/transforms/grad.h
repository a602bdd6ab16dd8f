// Grad: reverse-mode differentiation. It emits ordinary nodes through the current builder, so it nests, and works on a
// traced graph and on the eager tape alike. It runs before Partition: no collective ever needs a derivative.
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
  // The type in which the gradients of parameters are summed over tokens, micro-batches and ranks. Where it is not the
  // type that a parameter is used in, the ops whose derivative is a sum (products, lookups, broadcasts) give it in the
  // accumulate type, and it keeps that type through the casts of the parameter. Empty: a gradient has the type of the
  // value that it is the gradient of.
  std::optional<DType> parameter_sums{};
};

// The gradients of a scalar with respect to each of `wrt`; zeros where it does not depend on one.
// Every intermediate cotangent is resharded like its primal (its dual), so no cotangent is born at global size; the
// output of a reshard, a broadcast, and what is made from parameters and generators alone are exempt.
// An eager value that requires no gradient has no history to follow: that is an Error, not a zero.
std::vector<Var> Grad(Var loss, std::span<const Var> wrt, const GradOptions& options = {});
inline std::vector<Var> Grad(Var loss, std::initializer_list<Var> wrt) {
  return Grad(std::move(loss), std::span(wrt.begin(), wrt.size()));
}

// The same for several results with given cotangents: sum_i <cotangents[i], d results[i]>. Empty Var where not reached.
std::vector<Var> Vjp(std::span<const Var> results, std::span<const Var> cotangents, std::span<const Var> wrt);

}  // namespace weft
