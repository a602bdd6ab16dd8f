#include "weft/core/compile/comm_plan.h"

#include "weft/core/base/hash.h"
#include "weft/core/compile/planned_calls.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/wire.h"

namespace weft {
namespace {

// Returns the shape that a rank hands over. The dim that the op splits is rounded up to whole chunks of the output.
Shape HandedOver(const Node& node, int ranks) {
  const Var& in = node.inputs[0];
  Shape shape = in.node().outputs[size_t(in.index())].shape;
  AttrName<int64_t> cuts = FindCollectiveRow(node.op)->cuts;
  if (!cuts) return shape;
  auto dim = size_t(node.attrs.Int(cuts));
  shape[dim] = node.outputs[0].shape[dim] * ranks;
  return shape;
}

void AddLines(const Node& node, const MeshShape& mesh, int times, std::vector<CommLine>& lines) {
  if (!IsCollective(node.op)) return;
  int axis = int(node.attrs.Int("axis"));
  for (const GroupCall& call : GroupCallsOf(node, mesh.sizes[size_t(axis)]))
    lines.push_back({call.op, axis, mesh.names[size_t(axis)], call.bytes(), call.shape, call.dtype, node.phase, times,
                     node.scope ? *node.scope : "", ToString(node.loc)});
}

void Mix(const Node& node, StableHash& hash) {
  hash.Mix(uint64_t(node.op));
  hash.Mix(ToString(node.attrs));
  for (int64_t extent : node.outputs[0].shape) hash.Mix(uint64_t(extent));
  hash.Mix(uint64_t(node.outputs[0].dtype));
}

}  // namespace

absl::InlinedVector<GroupCall, 2> GroupCallsOf(const Node& node, int ranks) {
  Shape shape = HandedOver(node, ranks);
  std::optional<DType> wire = WireOf(node.attrs);
  if (!wire) return {{node.op, shape, node.inputs[0].dtype()}};
  if (node.op == Op::kReduceScatter) return {{Op::kAllToAll, shape, *wire}};
  int64_t chunk = WireChunk(NumElements(shape), ranks);
  return {{Op::kAllToAll, {chunk * ranks}, *wire}, {Op::kAllGather, {chunk}, *wire}};
}

std::vector<CommLine> CommPlan(const LocalProgram& program, int times) {
  std::vector<CommLine> lines;
  for (const auto& node : program.graph.nodes) AddLines(*node, program.mesh, times, lines);
  return lines;
}

std::vector<CommLine> CommPlan(const Plan& plan, const MeshShape& mesh, int times) {
  std::vector<CommLine> lines;
  for (const Step& step : plan.steps) AddLines(*step.node, mesh, times, lines);
  return lines;
}

uint64_t CommHash(const LocalProgram& program) {
  StableHash hash;
  for (const auto& node : program.graph.nodes)
    if (IsCollective(node->op)) Mix(*node, hash);
  return hash.value();
}

bool ArrangesCollectives(const Runtime& runtime) { return runtime.Overlaps() || runtime.device != DeviceKind::kCpu; }

uint64_t CommHash(const Plan& plan, const Runtime& runtime) {
  PretendedAddresses addresses(plan);
  PlannedCalls calls(plan, runtime, [&](const Place& place) { return addresses.At(place); });
  StableHash hash;
  for (const PlannedCalls::Batch& batch : calls.batches()) {
    if (!batch.axis) continue;
    hash.Mix(batch.first);
    hash.Mix(batch.count);
    for (size_t i = 0; i < batch.count; i++) Mix(*plan.steps[batch.first + i].node, hash);
  }
  return hash.value();
}

}  // namespace weft
