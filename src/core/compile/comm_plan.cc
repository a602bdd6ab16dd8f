#include "core/compile/comm_plan.h"

#include "core/base/hash.h"
#include "core/compile/runtime.h"

namespace weft {

bool IsCollective(Op op) {
  return op == Op::kAllReduce || op == Op::kAllGather || op == Op::kReduceScatter || op == Op::kAllToAll;
}

std::vector<CommLine> CommPlan(const LocalProgram& program, int times) {
  std::vector<CommLine> lines;
  for (const auto& node : program.graph.nodes) {
    if (!IsCollective(node->op)) continue;
    const Var& in = node->inputs[0];
    const ValueInfo& info = in.node().outputs[size_t(in.index())];
    int axis = int(node->attrs.Int("axis"));
    lines.push_back({node->op, axis, program.mesh.names[size_t(axis)], int64_t(BytesOf(info)), info.shape, info.dtype,
                     node->phase, times, node->scope ? *node->scope : "", ToString(node->loc)});
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
