// Einsum: products of two operands, contracted over the labels that the output lacks.
#pragma once
#include <string>

#include "weft/core/base/error.h"

namespace weft {
class Var;

// Einsum  eq: "btc,chd->bthd". Each label at most once per operand; a label of one operand only must be in the output.
//         Accumulates in f32 (f64 for f64). The result is of the operands' dtype or, with wide = 1, of the accumulate
//         type. narrow = 1: sums over ranks are of the result's type, which for f16 may overflow.

Var Einsum(std::string eq, Var a, Var b, Loc loc = Loc::current());

}  // namespace weft
