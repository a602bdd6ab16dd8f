// Builders of the elementwise ops, by name and as operators. Operands are broadcast to the shape that they have in
// common, as in NumPy.
#pragma once
#include "weft/core/ir/node.h"

namespace weft {

#define WEFT_DECLARE(Name, ...) Var Name(VarAt a);
WEFT_UNARY_OPS(WEFT_DECLARE)
#undef WEFT_DECLARE
#define WEFT_DECLARE(Name, ...) Var Name(VarAt a, double k);
WEFT_SCALAR_OPS(WEFT_DECLARE)
#undef WEFT_DECLARE
#define WEFT_DECLARE(Name, ...) Var Name(VarAt a, VarAt b);
WEFT_BINARY_OPS(WEFT_DECLARE)
WEFT_COMPARE_OPS(WEFT_DECLARE)
WEFT_LOGIC_OPS(WEFT_DECLARE)
#undef WEFT_DECLARE

Var Not(VarAt a);
Var Select(VarAt condition, VarAt a, VarAt b);  // condition ? a : b, elementwise
Var Cast(VarAt a, DType dtype);                 // returns a itself if it has this dtype
Var StopGradient(VarAt a);

inline Var operator+(VarAt a, VarAt b) { return Add(a, b); }
inline Var operator-(VarAt a, VarAt b) { return Sub(a, b); }
inline Var operator*(VarAt a, VarAt b) { return Mul(a, b); }
inline Var operator/(VarAt a, VarAt b) { return Div(a, b); }
inline Var operator-(VarAt a) { return Neg(a); }
inline Var operator+(VarAt a, double k) { return AddScalar(a, k); }
inline Var operator+(double k, VarAt a) { return AddScalar(a, k); }
inline Var operator-(VarAt a, double k) { return AddScalar(a, -k); }
inline Var operator-(double k, VarAt a) { return AddScalar(Neg(a), k); }
inline Var operator*(VarAt a, double k) { return Scale(a, k); }
inline Var operator*(double k, VarAt a) { return Scale(a, k); }
Var operator/(VarAt a, double k);
Var operator/(double k, VarAt a);
inline Var operator<(VarAt a, VarAt b) { return Lt(a, b); }
inline Var operator<=(VarAt a, VarAt b) { return Le(a, b); }
inline Var operator>(VarAt a, VarAt b) { return Gt(a, b); }
inline Var operator>=(VarAt a, VarAt b) { return Ge(a, b); }

}  // namespace weft
