// TakesIntegers: the column `int` of elementwise_rows.h as a function. Holds: the numbers that a dtype has.
#pragma once
#include <cmath>

#include "weft/core/base/dtype.h"
#include "weft/core/ir/op.h"

namespace weft {

constexpr bool TakesIntegers(Op op) {
#define WEFT_ROW(Name, text, linear, integers, ...) \
  if (op == Op::k##Name) return integers;
  WEFT_UNARY_OPS(WEFT_ROW)
  WEFT_SCALAR_OPS(WEFT_ROW)
  WEFT_BINARY_OPS(WEFT_ROW)
#undef WEFT_ROW
  return false;
}

// Whether a value of the dtype can be the number k. A float holds each one, rounded.
inline bool Holds(DType dtype, double k) {
  if (IsFloating(dtype)) return true;
  bool is_signed = dtype == DType::kI64 || dtype == DType::kI32;
  double end = dtype == DType::kBool ? 2 : std::ldexp(1, int(8 * SizeOf(dtype)) - is_signed);
  return k == std::trunc(k) && k >= (is_signed ? -end : 0) && k < end;
}

}  // namespace weft
