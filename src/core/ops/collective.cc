// Collectives and the local moves beside them. Only Partition makes these nodes.
//
// Storage is dense row-major over capacities; all ranks of the axis have equal capacities. Pieces are whole chunks:
//
// AllReduce      axis, reduce: elementwise over the ranks of the axis. Output may share storage with the input.
// AllGather      axis, dim: concatenates the ranks' chunks along dim, in order of coordinate, cut to the output's
//                capacity (k chunks may exceed it; what is cut is padding, because only trailing ranks hold less).
// ReduceScatter  axis, dim, reduce: reduces, then rank c keeps chunk c of dim (chunk = output capacity; the input is
//                padded to k chunks).
// AllToAll       axis, gather_dim, split_dim: from a shard of gather_dim to a shard of split_dim.
// LocalSlice     axis, dim: rank c keeps chunk c of dim. No communication.
// MaskPartial    axis, reduce: Replicate to Partial: coordinate 0 keeps x, the others hold the reduction's identity
//                (0 for sum; x itself for max and min). No communication.
// Records of the ops that only Partition makes. Their outputs are laid out by Partition, not inferred, and they are
// never differentiated or partitioned again.

#include "weft/core/ir/record.h"

namespace weft {
namespace {
void Infer(Node& node) { FailAt(node, "collectives are made by Partition only; reshard the value instead"); }
void NoGrad(GradCall&) {}
Dims SameLabels(const Node& node) {
  std::string labels = Letters(node.inputs[0].rank());
  return {.in = {labels}, .out = {labels}};
}
std::vector<Sample> NoSamples(Op) { return {}; }
}  // namespace

void RegisterCollective(OpTable& t) {
#define WEFT_RECORD(Name, ...) \
  t[size_t(Op::k##Name)] = {   \
      .op = Op::k##Name, .infer = Infer, .grad = NoGrad, .dims = SameLabels, .samples = NoSamples};
  WEFT_COLLECTIVE_OPS(WEFT_RECORD)
#undef WEFT_RECORD
}

}  // namespace weft
