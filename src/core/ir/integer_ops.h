// TakesIntegers: the column `int` of elementwise_rows.h as a function.
#pragma once
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

}  // namespace weft
