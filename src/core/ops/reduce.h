// Reductions over one dim, which disappears; and the running sum, which keeps it.
#pragma once
#include "weft/core/base/error.h"
#include "weft/core/ir/elementwise_rows.h"

namespace weft {
class Var;

// ReduceSum, ReduceMax, ReduceMin, ReduceProd
//               dim. Floats accumulate in f32 (f64 for f64); an empty dim gives 0, -inf, inf, 1. ReduceSum's result is
//               of the operand's dtype or, of floats with wide = 1, of the accumulate type.
// ArgMax        dim: i64, the lowest global index of the largest element.
// CumSum        dim: element i is the sum of the elements up to i; the dim stays.
// SumOfSquares  all dims: a scalar of the accumulate type (f32; f64 for f64).
// clang-format off
// clang-format on

Var ReduceSum(Var x, int dim, Loc loc = Loc::current());
Var ReduceMax(Var x, int dim, Loc loc = Loc::current());
Var ReduceMin(Var x, int dim, Loc loc = Loc::current());
Var ReduceProd(Var x, int dim, Loc loc = Loc::current());
Var ArgMax(Var x, int dim, Loc loc = Loc::current());
Var CumSum(Var x, int dim, Loc loc = Loc::current());
Var SumOfSquares(Var x, Loc loc = Loc::current());
// Over all dims, one after the other; a scalar.
Var SumAll(Var x, Loc loc = Loc::current());
// exp(x - max) / sum over dim; a composition.
Var Softmax(Var x, int dim, Loc loc = Loc::current());

}  // namespace weft
