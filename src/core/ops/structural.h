// Structural ops: they move or repeat elements and compute nothing. Each names one dim, except Permute.
#pragma once
#include <optional>
#include <span>

#include "weft/core/base/attrs.h"
#include "weft/core/base/error.h"
#include "weft/core/base/shape.h"

namespace weft {
class Var;

// Broadcast  dim, size: inserts a dim of that size and repeats x along it. A generator in the new dim.
// Permute    perm: output dim i is input dim perm[i].
// Split      dim, inner: dim n becomes [n / inner, inner].
// Merge      dim: dims dim and dim + 1 become one.
// Slice      dim, start, length, step: `length` elements of dim, from `start` on, `step` apart (1 if it is absent).
// Pad        dim, low, high: adds `low` zeros before and `high` zeros after.
// Concat     dim: joins any number of inputs that agree in the other dims.
// Slices and Concats of a local program may have the attribute `packed`. Then each rank joins its shards of the inputs,
// which are even, and cuts its part of that: `packed` is the first element of a Slice on each rank, and 0 for a Concat.
// Reverse    dim: the elements of dim in reverse order.
inline bool IsPacked(const Attrs& attrs) { return attrs.IntOr("packed", -1) >= 0; }

Var Broadcast(Var x, int dim, int64_t size, Loc loc = Loc::current());
// Broadcasts as NumPy does: inserts the leading dims that x lacks, and repeats dims of extent 1. Throws Error unless
// every dim of x is 1 or equals the trailing dim of `shape` that it meets.
Var BroadcastTo(Var x, const Shape& shape, Loc loc = Loc::current());
Var Permute(Var x, Shape perm, Loc loc = Loc::current());
Var Split(Var x, int dim, int64_t inner, Loc loc = Loc::current());
Var Merge(Var x, int dim, Loc loc = Loc::current());
Var Slice(Var x, int dim, int64_t start, int64_t length, Loc loc = Loc::current());
// Returns `length` elements that are `step` >= 1 apart.
Var StridedSlice(Var x, int dim, int64_t start, int64_t length, int64_t step, Loc loc = Loc::current());
Var Pad(Var x, int dim, int64_t low, int64_t high, Loc loc = Loc::current());
Var Concat(std::span<const Var> xs, int dim, Loc loc = Loc::current());
Var Reverse(Var x, int dim, Loc loc = Loc::current());
// Compositions. Squeeze removes a dim of extent 1, Unsqueeze inserts one.
Var Squeeze(Var x, int dim, Loc loc = Loc::current());
Var Unsqueeze(Var x, int dim, Loc loc = Loc::current());
// Returns the shape to which NumPy broadcasts both, or nullopt if there is none.
std::optional<Shape> BroadcastShape(const Shape& a, const Shape& b);

}  // namespace weft
