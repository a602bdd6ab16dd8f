// The activations that the op linear can apply to its result, by the names of their ops. A row here needs a case in the
// kernels that apply one inside a product (few_rows.cu); all else follows.
#pragma once
#include "weft/core/ir/op.h"

#define WEFT_LINEAR_ACTIVATIONS(X) X(Gelu) X(GeluExact) X(Silu) X(Relu)

namespace weft {

inline constexpr Op kLinearActivations[] = {
#define WEFT_OP(Name) Op::k##Name,
    WEFT_LINEAR_ACTIVATIONS(WEFT_OP)
#undef WEFT_OP
};

}  // namespace weft
