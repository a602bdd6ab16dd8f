#include "weft/core/ir/op.h"

#include <cstddef>

namespace weft {

const char* Name(Op op) {
  static constexpr const char* kNames[] = {
#define WEFT_NAME(Name, text, ...) text,
      WEFT_ALL_OPS(WEFT_NAME)
#undef WEFT_NAME
  };
  return kNames[size_t(op)];
}

}  // namespace weft
