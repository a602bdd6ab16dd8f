// Einsum: products of two operands, contracted over the labels that the output lacks.
#pragma once
#include <string>

#include "weft/core/base/error.h"

namespace weft {
class Var;

// Einsum  eq: "btc,chd->bthd". A label may appear at most once per operand. A label of only one operand must be in the
//         output. Accumulates in f32 (f64 for f64). The result has the operands' dtype or, with wide = 1, the
//         accumulate type. With narrow = 1, sums over ranks have the result's type, which may overflow in f16.

Var Einsum(std::string eq, Var a, Var b, Loc loc = Loc::current());

}  // namespace weft
