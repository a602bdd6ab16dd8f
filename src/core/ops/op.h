// Op: the closed set of operations. Each family's header lists its own rows; this joins them once.
#pragma once
#include <cstdint>

#include "weft/core/ops/elementwise.h"
#include "weft/core/ops/families.h"

namespace weft {

enum class Op : uint16_t {
#define WEFT_ENUM(Name, ...) k##Name,
  WEFT_UNARY_OPS(WEFT_ENUM) WEFT_SCALAR_OPS(WEFT_ENUM) WEFT_BINARY_OPS(WEFT_ENUM) WEFT_COMPARE_OPS(WEFT_ENUM)
      WEFT_LOGIC_OPS(WEFT_ENUM) WEFT_OTHER_ELEMENTWISE_OPS(WEFT_ENUM) WEFT_FAMILIES(WEFT_ENUM)
#undef WEFT_ENUM
          kCount
};
inline constexpr int kNumOps = int(Op::kCount);
const char* Name(Op op);

}  // namespace weft
