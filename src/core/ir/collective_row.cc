#include "weft/core/ir/collective_row.h"

namespace weft {

const CollectiveRow* FindCollectiveRow(Op op) {
  static constexpr struct {
    Op op;
    CollectiveRow row;
  } kRows[] = {
#define WEFT_ROW(Name, text, cost, reduces, joins, cuts) {Op::k##Name, {cost, reduces, joins, cuts}},
      WEFT_COLLECTIVE_OPS(WEFT_ROW)
#undef WEFT_ROW
  };
  for (const auto& known : kRows)
    if (known.op == op) return &known.row;
  return nullptr;
}

}  // namespace weft
