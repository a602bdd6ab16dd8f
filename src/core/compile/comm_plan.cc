#include "weft/core/compile/comm_plan.h"

#include "weft/core/base/hash.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/ir/collective_row.h"

namespace weft {

// The op splits a dim rounded up to whole chunks of the output.
Shape HandedOver(const Node& node, int ranks) {
  const Var& in = node.inputs[0];
  Shape shape = in.node().outputs[size_t(in.index())].shape;
  AttrName<int64_t> cuts = FindCollectiveRow(node.op)->cuts;
  if (!cuts) return shape;
  auto dim = size_t(node.attrs.Int(cuts));
  shape[dim] = node.outputs[0].shape[dim] * ranks;
  return shape;
}

std::vector<CommLine> CommPlan(const LocalProgram& program, int times) {
  std::vector<CommLine> lines;
  for (const auto& node : program.graph.nodes) {
    if (!IsCollective(node->op)) continue;
    const Var& in = node->inputs[0];
    const ValueInfo& info = in.node().outputs[size_t(in.index())];
    int axis = int(node->attrs.Int("axis"));
    Shape shape = HandedOver(*node, program.mesh.sizes[size_t(axis)]);
    int64_t bytes = NumElements(shape) * int64_t(SizeOf(info.dtype));
    lines.push_back({node->op, axis, program.mesh.names[size_t(axis)], bytes, std::move(shape), info.dtype, node->phase,
                     times, node->scope ? *node->scope : "", ToString(node->loc)});
  }
  return lines;
}

uint64_t CommHash(const LocalProgram& program) {
  StableHash hash;
  for (const auto& node : program.graph.nodes) {
    if (!IsCollective(node->op)) continue;
    hash.Mix(uint64_t(node->op));
    hash.Mix(ToString(node->attrs));
    for (int64_t extent : node->outputs[0].shape) hash.Mix(uint64_t(extent));
    hash.Mix(uint64_t(node->outputs[0].dtype));
  }
  return hash.value();
}

}  // namespace weft
