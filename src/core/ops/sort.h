// Ops that order the elements of one dim. Each returns values and the i64 indices in `dim` from which they came.
#pragma once
#include <cstdint>

#include "weft/core/ir/node.h"

namespace weft {

// Sort    dim, descending (0 or 1): the elements of `dim` in order. Equal elements keep their order. NaN counts as the
//         largest value, so it comes last, or first if descending.
// TopK    dim, length: the `length` largest elements, the largest first. Of equal elements the lowest index comes
//         first. NaN counts as the largest value.
// CumMax  dim: element i is the largest of the elements up to and including i, and of equal ones the last. From the
//         first NaN on, every result is the latest NaN.

struct Sorted {
  Var values, indices;
};
Sorted Sort(Var x, int dim, bool descending = false, Loc loc = Loc::current());
Sorted TopK(Var x, int64_t k, int dim, Loc loc = Loc::current());
Sorted CumMax(Var x, int dim, Loc loc = Loc::current());

}  // namespace weft
