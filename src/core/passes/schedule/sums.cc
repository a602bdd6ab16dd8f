#include "weft/core/passes/schedule/sums.h"

#include <algorithm>
#include <vector>

#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ops/structural.h"
#include "weft/core/passes/block.h"

namespace weft {
namespace {

// Returns the last collective that reads a value of the backward pass, or -1.
int LastOfBackward(const Order& order) {
  int last = -1;
  for (int i = 0; i < order.size(); i++) {
    if (!IsCollective(order.At(i).op)) continue;
    const Node& operand = order.At(i).inputs[0].node();
    bool of_backward = operand.phase != Phase::kOptimizer && operand.op != Op::kLeaf;
    if (of_backward && (last < 0 || order.PositionOf(last) < order.PositionOf(i))) last = i;
  }
  return last;
}

// Returns the slot of the first reduction of the block of a collective: sums over later ones would wait for it.
int FirstOfBlock(const Order& order, int collective) {
  int first = order.PositionOf(collective).slot;
  for (int i = 0; i < order.size(); i++) {
    const Node& node = order.At(i);
    if (IsCollective(node.op) && ReducesOverRanks(node.op) && node.phase != Phase::kForward &&
        BlockOf(node) == BlockOf(order.At(collective)))
      first = std::min(first, order.PositionOf(i).slot);
  }
  return first;
}

// Whether node i is a leaf, or what a collective before slot `before` returns, or a part of that or its sum with an
// accumulator. Appends the parts and sums.
bool IsReducedBefore(const Order& order, const MoveFinder& finder, int before, int i, std::vector<int>& chain) {
  const Node& node = order.At(i);
  if (order.IsLeaf(i)) return true;
  if (IsCollective(node.op)) return order.PositionOf(i).slot < before;
  bool adds = order.Accumulates(i) && order.PositionOf(i).slot < before;
  if (!adds && !IsAlias(node) && !IsPacked(node.attrs)) return false;
  for (const Var& in : node.inputs)
    if (!IsReducedBefore(order, finder, before, finder.IndexOf(in), chain)) return false;
  chain.push_back(i);
  return true;
}

bool IsScalarOfUpdate(const Order& order, int i) {
  const Node& node = order.At(i);
  return node.phase == Phase::kOptimizer && order.IsKernel(i) && !node.inputs.empty() && node.outputs.size() == 1 &&
         node.outputs[0].shape.empty();
}

}  // namespace

void PlaceSums(const MoveFinder& finder, Order& order) {
  int last = LastOfBackward(order);
  if (last < 0) return;
  Position behind = order.PositionOf(last);
  int before = FirstOfBlock(order, last);
  for (int i = behind.slot + 1; i < order.size(); i++) {
    std::vector<int> chain;
    auto is_there = [&](const Var& in) { return IsReducedBefore(order, finder, before, finder.IndexOf(in), chain); };
    if (!IsScalarOfUpdate(order, i) || !std::ranges::all_of(order.At(i).inputs, is_there)) continue;
    chain.push_back(i);
    order.Place(chain, behind);
  }
}

}  // namespace weft
