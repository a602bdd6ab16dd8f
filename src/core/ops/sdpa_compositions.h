// Attention composed of plain ops, which keeps all scores. Tests compare kernels with it, and derivatives that have no
// kernel are derived from it, a block of queries at a time.
#pragma once
#include "weft/core/ir/record.h"

namespace weft {

// Legend: B batch, T queries, S keys, H query heads, G KV heads, D and E head sizes of keys and values.
Outputs ComposeSdpa(const Node& node);      // out [B, T, H, E], lse [B, T, H]
Outputs ComposeSdpaGrad(const Node& node);  // dq, dk, dv, then dsinks and dbias if the node has these operands

}  // namespace weft
