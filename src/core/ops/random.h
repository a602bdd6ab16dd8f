// Random ops: functions of a key and the global element index (core/base/rng.h), so they are the same on any mesh.
#pragma once
#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/shape.h"

namespace weft {
class Var;

// Both ops take two i64 scalars, `step` and `first_row`. first_row is the global row at which this micro-batch starts.
// Rows are counted from it along dim 0: row = first_row * (rows per element of dim 0) + linear row. A row is the last
// dim and starts a new Philox block (rng.h). A tensor of rank 1 has one row. The key is RandomKey(seed, phase, path,
// ordinal).
//
// Random   (step, first_row); kind "uniform" (0, 1) or "normal", key, dtype, shape. A generator. Values are computed in
//          f64 and rounded to the dtype.
// Dropout  (x, step, first_row); p, key. An element becomes x * DropoutScale(p) if its bits are >= DropoutThreshold(p),
//          else 0. rng.h defines its 16 bits. The op is linear in x and its own transpose. The optional attributes dim,
//          start and size say that x is the slice [start, start + n) of dim `dim` of a tensor with `size` elements
//          there. Its bits are then those of that tensor.

// The key is made from the current builder's seed, phase, module path and counter.
Var RandomUniform(DType dtype, Shape shape, Loc loc = Loc::current());
Var RandomNormal(DType dtype, Shape shape, Loc loc = Loc::current());
// Returns x if p is 0 or the builder is not in the training phase. Throws Error unless p is in [0, 1 - 2^-17).
Var Dropout(Var x, double p, Loc loc = Loc::current());

}  // namespace weft
