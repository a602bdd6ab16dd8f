// CollectiveRow: the properties that passes need of collectives and of the local moves that Partition inserts with
// them. The rows are in op.def, and core/ops/collective.cc documents the ops.
#pragma once
#include "weft/core/base/attrs.h"
#include "weft/core/ir/op.h"

namespace weft {

struct CollectiveRow {
  int cost;                 // bytes on the wire as a multiple of an all_gather's; 0: a local move
  bool reduces;             // has the attribute `reduce`
  AttrName<int64_t> joins;  // the attribute that names the dim along which chunks are joined; null: none
  AttrName<int64_t> cuts;   // the attribute that names the dim that is cut into chunks; null: none
};

const CollectiveRow* FindCollectiveRow(Op op);  // null for any other op
// Whether the op moves bytes between ranks.
inline bool IsCollective(Op op) {
  const CollectiveRow* row = FindCollectiveRow(op);
  return row && row->cost > 0;
}
// Whether the op moves bytes between ranks and reduces what they hold.
inline bool ReducesOverRanks(Op op) { return IsCollective(op) && FindCollectiveRow(op)->reduces; }

}  // namespace weft
