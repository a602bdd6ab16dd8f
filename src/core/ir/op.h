// Op: the closed set of operations, from the table in op.def.
#pragma once
#include <cstdint>

#include "weft/core/ir/op.def"

namespace weft {

enum class Op : uint16_t {
#define WEFT_ENUM(Name, ...) k##Name,
  WEFT_ALL_OPS(WEFT_ENUM)
#undef WEFT_ENUM
      kCount
};
inline constexpr int kNumOps = int(Op::kCount);
const char* Name(Op op);

}  // namespace weft
