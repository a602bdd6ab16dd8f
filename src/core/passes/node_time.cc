#include "weft/core/passes/node_time.h"

#include "weft/core/ir/product_flops.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ops/structural.h"

namespace weft {

double LocalFlops(const Node& node) {
  return ProductFlops(node, [&](size_t i, size_t d) { return node.inputs[i].shape()[d]; });
}

double NodeTime(const Node& node) {
  bool part = (node.op == Op::kSlice || node.op == Op::kConcat) && IsPacked(node.attrs);
  if (IsAlias(node) || IsShapeOnly(node) || node.op == Op::kLeaf || part) return 0;
  double bytes = 0;
  for (const Var& x : node.inputs)
    if (!IsShapeOnly(x.node())) bytes += double(BytesOf(x.node().outputs[size_t(x.index())]));
  for (const ValueInfo& y : node.outputs) bytes += double(BytesOf(y));
  return bytes + LocalFlops(node) / kFlopsPerByte;
}

}  // namespace weft
