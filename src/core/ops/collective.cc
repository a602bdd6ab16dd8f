// Collectives and the local moves that go with them. Only Partition makes these nodes.
//
// Storage is dense row-major over capacities, and all ranks of the axis have equal capacities. Pieces are whole chunks.
//
// AllReduce      axis, reduce: reduces elementwise over the ranks of the axis. The output may share the storage of the
//                input.
// AllGather      axis, dim: concatenates the ranks' chunks along dim in order of coordinate, cut to the output's
//                capacity. k chunks may exceed it. Only padding is cut, because only trailing ranks hold less than a
//                chunk.
// ReduceScatter  axis, dim, reduce: reduces, then rank c keeps chunk c of dim. The chunk is the output's capacity, and
//                the input is padded to k chunks.
// AllToAll       axis, gather_dim, split_dim: from a shard of gather_dim to a shard of split_dim.
// LocalSlice     axis, dim: rank c keeps chunk c of dim. No communication.
// MaskPartial    axis, reduce: from Replicate to Partial. Coordinate 0 keeps x. For a sum the others hold 0. For max
//                and min they keep x too. No communication.
//
// AllReduce and ReduceScatter may have a wire. Then they are sums of f32 whose terms cross ranks in that type
// (core/ir/wire.h).
//
// The records of these ops are below. Partition lays their outputs out, so they are not inferred. They are never
// differentiated or partitioned again.

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
      .op = Op::k##Name, .infer = Infer, .grad = NoGrad, .dims = SameLabels, .samples = NoSamples, .by_rows = true};
  WEFT_COLLECTIVE_OPS(WEFT_RECORD)
#undef WEFT_RECORD
  t[size_t(Op::kLocalSlice)].reads_part = true;
  t[size_t(Op::kAllToAll)].by_rows = false;  // it moves elements between two dims
}

}  // namespace weft
