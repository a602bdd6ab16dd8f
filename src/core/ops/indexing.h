// Ops whose positions are values of the program: picking and writing elements by index, and windows at a start that is
// a tensor.
#pragma once
#include <cstdint>

#include "weft/core/base/error.h"

namespace weft {
class Var;

// Gather         (x, index of i32 or i64); dim. The index has x's dims, but any extent in `dim`. The result has the
//                index's shape: y[.., i, ..] = x[.., index[.., i, ..], ..]. An id outside x gives 0.
//                whole (0 or 1): ids that are sharded along `dim` are gathered first.
//                inverse (0 or 1): there is a third operand, the inverse of the index, for the gradient only.
// Scatter        (x, index, src); dim. The index and src have one shape, which agrees with x in all dims but `dim`.
//                Returns x with y[.., index[.., i, ..], ..] = src[.., i, ..]. If ids are equal, the last one along
//                `dim` wins. Ids outside x are skipped.
// ScatterAdd     (x, index, src); dim. As Scatter, but adds. Terms are added in order of i, in f64 for f32 and f64, and
//                in at least f32 for 16-bit floats. The sum is rounded once. The result is the same in every run.
// DynamicSlice   (x, start of i32 or i64); dim, length: the window [start, start + length) of `dim`. The start has the
//                shape of the first r dims of x, r <= dim: a scalar, or one start for each row of those dims. As in
//                XLA, a start is clamped to [0, extent - length], so that the window lies inside x.
// DynamicUpdate  (x, update, start); dim: x with that window replaced by the update, whose extent in `dim` is the
//                window's. The start is clamped as above. If x is not needed afterwards, it is updated in place, at the
//                cost of the window only.

Var Gather(Var x, Var index, int dim, Loc loc = Loc::current());
// Gather with an index that names no element twice, and its inverse, which has the shape of x: index[inverse[i]] = i
// for each element i that is named, and an id outside the index for the others. The gradient gathers by the inverse,
// where that of Gather has to add. Indices that do not invert each other give wrong gradients.
Var GatherInvertible(Var x, Var index, Var inverse, int dim, Loc loc = Loc::current());
Var Scatter(Var x, Var index, Var src, int dim, Loc loc = Loc::current());
Var ScatterAdd(Var x, Var index, Var src, int dim, Loc loc = Loc::current());
Var DynamicSlice(Var x, Var start, int dim, int64_t length, Loc loc = Loc::current());
Var DynamicUpdate(Var x, Var update, Var start, int dim, Loc loc = Loc::current());

}  // namespace weft
