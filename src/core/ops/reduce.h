// Reductions over one dim, which the result lacks, and the running sum, which keeps its dim.
#pragma once
#include "weft/core/base/error.h"
#include "weft/core/ir/elementwise_rows.h"

namespace weft {
class Var;

// ReduceSum, ReduceMax, ReduceMin, ReduceProd
//               dim. Floats accumulate in f32 (f64 for f64). An empty dim gives 0, -inf, inf and 1. The result has the
//               operand's dtype. ReduceSum of floats with wide = 1 returns the accumulate type.
// ArgMax        dim: i64, the lowest global index of the largest element. NaN counts as the largest value.
// CumSum        dim: element i is the sum of the elements up to and including i. The dim stays.
// SumOfSquares  over all dims: a scalar of the accumulate type (f32; f64 for f64).

Var ReduceSum(Var x, int dim, Loc loc = Loc::current());
Var ReduceMax(Var x, int dim, Loc loc = Loc::current());
Var ReduceMin(Var x, int dim, Loc loc = Loc::current());
Var ReduceProd(Var x, int dim, Loc loc = Loc::current());
Var ArgMax(Var x, int dim, Loc loc = Loc::current());
Var CumSum(Var x, int dim, Loc loc = Loc::current());
Var SumOfSquares(Var x, Loc loc = Loc::current());
// Returns the sum over all dims, one dim after the other, as a scalar.
Var SumAll(Var x, Loc loc = Loc::current());

}  // namespace weft
