// CollectiveRow: what passes ask about the collectives of programs and the local moves beside them. The rows stand in
// op.def; the ops' contract is in core/ops/collective.cc.
#pragma once
#include "weft/core/base/attrs.h"
#include "weft/core/ir/op.h"

namespace weft {

struct CollectiveRow {
  int cost;                 // bytes on the wire, in those of an all_gather; 0: a local move
  bool reduces;             // has the attribute reduce
  AttrName<int64_t> joins;  // the attribute that names the dim which chunks are put together in; null: none
  AttrName<int64_t> cuts;   // and the dim that is cut into chunks
};

const CollectiveRow* FindCollectiveRow(Op op);  // null for other ops
// Moves bytes between ranks.
inline bool IsCollective(Op op) {
  const CollectiveRow* row = FindCollectiveRow(op);
  return row && row->cost > 0;
}

}  // namespace weft
