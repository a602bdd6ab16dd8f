#include "weft/core/ir/wire.h"

#include <fmt/format.h>

#include "weft/core/host/rounding.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/record.h"

namespace weft {

std::optional<DType> WireOf(const Attrs& attrs) {
  int64_t wire = attrs.IntOr("wire", -1);
  return wire < 0 ? std::nullopt : std::optional(DType(wire));
}

void CheckWire(const Node& node) {
  std::optional<DType> wire = WireOf(node.attrs);
  if (!wire) return;
  bool sums =
      node.op == Op::kReshard || (ReducesOverRanks(node.op) && node.attrs.Int("reduce") == int64_t(ReduceOp::kSum));
  if (!sums) FailAt(node, fmt::format("wire {}: expected a sum over ranks", Name(*wire)));
  DType dtype = node.inputs[0].dtype();
  bool narrow = node.op == Op::kReduceScatter && dtype == *wire;
  if (*wire != DType::kBF16 || !(dtype == DType::kF32 || narrow))
    FailAt(node, fmt::format("expected sums of f32 with wire bf16, got {} with wire {}; remove the wire, or sum in f32",
                             Name(dtype), Name(*wire)));
}

int64_t WireChunk(int64_t elements, int ranks) {
  constexpr int64_t kVector = 16 / int64_t(sizeof(BF16));
  return RoundUp(CeilDiv(elements, ranks), kVector);
}

}  // namespace weft
