#include "core/compile/comm_plan.h"

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
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  auto mix = [&](uint64_t v) { hash = (hash ^ v) * 0x100000001B3u; };
  for (const auto& node : program.graph.nodes) {
    if (!IsCollective(node->op)) continue;
    mix(uint64_t(node->op));
    for (char c : ToString(node->attrs)) mix(uint8_t(c));
    for (int64_t extent : node->outputs[0].shape) mix(uint64_t(extent));
    mix(uint64_t(node->outputs[0].dtype));
  }
  return hash;
}

}  // namespace weft
