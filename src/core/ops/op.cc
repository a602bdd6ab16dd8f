#include "weft/core/ops/op.h"

namespace weft {

const char* Name(Op op) {
  static constexpr const char* kNames[] = {
#define WEFT_NAME(Name, text, ...) text,
      WEFT_UNARY_OPS(WEFT_NAME) WEFT_SCALAR_OPS(WEFT_NAME) WEFT_BINARY_OPS(WEFT_NAME) WEFT_COMPARE_OPS(WEFT_NAME)
          WEFT_LOGIC_OPS(WEFT_NAME) WEFT_OTHER_ELEMENTWISE_OPS(WEFT_NAME) WEFT_FAMILIES(WEFT_NAME)
#undef WEFT_NAME
  };
  return kNames[size_t(op)];
}

}  // namespace weft
