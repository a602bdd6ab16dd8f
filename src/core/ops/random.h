// Random ops: functions of a key and the global element index (core/base/rng.h), the same on any mesh.
#pragma once
#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/shape.h"

namespace weft {
class Var;

// Both take two i64 scalars, `step` and `first_row`. The second is the global row at which this micro-batch starts, and
// a block number is counted from it along dim 0: row = first_row * (rows per element of dim 0) + linear row, where a
// row is the last dim and starts a new Philox block (rng.h). Rank-1 tensors have one row. Key: RandomKey(seed, phase,
// path, ordinal).
//
// Random   (step, first_row); kind "uniform" (0, 1) or "normal", key, shape. A generator. f64 values rounded to the
//          dtype.
// Dropout  (x, step, first_row); p, key: where bits >= DropoutThreshold(p) the element is x * DropoutScale(p), else 0;
//          which 16 bits, says rng.h. Linear in x; its own transpose.

// The key is made from the current builder's seed, phase, module path and counter.
Var RandomUniform(DType dtype, Shape shape, Loc loc = Loc::current());
Var RandomNormal(DType dtype, Shape shape, Loc loc = Loc::current());
// The identity when p is 0 or the builder is not in the training phase.
Var Dropout(Var x, double p, Loc loc = Loc::current());

}  // namespace weft
