#include "weft/core/compile/call_cost.h"

#include <algorithm>

#include "weft/core/ir/product_flops.h"
#include "weft/core/ir/record.h"

namespace weft {
namespace {

// Counts the elements in memory: a dim of stride 0 repeats the same ones.
int64_t DistinctElements(const TensorView& view) {
  if (!view.data) return 0;  // a shape operand
  int64_t n = 1;
  for (int d = 0; d < view.rank; d++)
    n *= view.dim(d).stride == 0 ? std::min<int64_t>(view.dim(d).extent, 1) : view.dim(d).extent;
  return n;
}

// Returns which operand holds the elements that the op writes if it runs in place, or -1: all of the result is written.
int WrittenInPlace(const OpRecord& record, const KernelCall& call) {
  bool in_place = record.replaces >= 0 && call.out[0].data && call.out[0].data == call.in[0].data;
  return in_place ? record.replaces : -1;
}

}  // namespace

CallCost& CallCost::operator+=(const CallCost& other) {
  bytes += other.bytes;
  flops += other.flops;
  return *this;
}

CallCost CostOf(const Node& node, const KernelCall& call) {
  CallCost cost;
  int64_t written = 0;
  const OpRecord& record = Record(node.op);
  if (int operand = WrittenInPlace(record, call); operand > 0) {
    for (size_t i = 1; i < call.in.size(); i++)
      cost.bytes += DistinctElements(call.in[i]) * int64_t(SizeOf(call.in[i].dtype));
    cost.bytes += call.in[size_t(operand)].NumElements() * int64_t(SizeOf(call.in[0].dtype));
    return cost;
  }
  for (const TensorView& view : call.out) {
    written += DistinctElements(view);
    cost.bytes += DistinctElements(view) * int64_t(SizeOf(view.dtype));
  }
  for (size_t i = 0; i < call.in.size(); i++) {
    int64_t read = DistinctElements(call.in[i]);
    if (i == 0 && record.reads_part) read = std::min(read, written);
    cost.bytes += read * int64_t(SizeOf(call.in[i].dtype));
  }
  cost.flops = ProductFlops(node, [&](size_t i, size_t d) { return call.in[i].dim(int(d)).extent; });
  return cost;
}

}  // namespace weft
