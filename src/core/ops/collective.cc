// Records of the ops that only Partition makes. Their outputs are laid out by Partition, not inferred, and they are
// never differentiated or partitioned again.
#include "weft/core/ops/collective.h"

#include "weft/core/ops/record.h"

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
#define WEFT_RECORD(Name, ...) t[size_t(Op::k##Name)] = {Op::k##Name, Infer, NoGrad, SameLabels, nullptr, NoSamples};
  WEFT_COLLECTIVE_OPS(WEFT_RECORD)
#undef WEFT_RECORD
}

}  // namespace weft
