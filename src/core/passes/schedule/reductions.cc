#include "weft/core/passes/schedule/reductions.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "weft/core/ir/collective_row.h"
#include "weft/core/passes/block.h"

namespace weft {
namespace {

class ReductionPlacer {
 public:
  explicit ReductionPlacer(Order& order) : order_(order) {}

  // A bucket ends if one of its results is read before the next operand is computed.
  void PlaceTogether(std::vector<Move> reductions) {
    std::ranges::stable_sort(reductions, {}, [this](const Move& move) { return Ready(move); });
    using Key = std::tuple<Op, int64_t, std::string_view>;
    std::map<Key, Bucket> open;
    std::vector<Bucket> buckets;
    for (const Move& move : reductions) {
      const Node& node = order_.At(move.node);
      Key key{node.op, node.attrs.Int("axis"), BlockOf(node)};
      auto it = open.find(key);
      if (it != open.end() && Ready(move).slot >= FirstReader(it->second)) {
        buckets.push_back(std::move(it->second));
        open.erase(it);
      }
      open[key].push_back(move);
    }
    for (auto& [key, bucket] : open) buckets.push_back(std::move(bucket));
    SplitLast(buckets);
    for (const Bucket& bucket : buckets) order_.Place(bucket, Behind(bucket));
  }

  // A kernel that adds what was reduced, or a part of it, to an accumulator would wait for that. So it runs after the
  // next bucket has begun.
  void PlaceUpdates(const Move& move, const MoveFinder& finder) {
    PlaceUpdates(move.node, move.node, {}, finder);
    for (int part : finder.ReadersOf(move.node))
      if (part < order_.size() && order_.At(part).op == Op::kSlice) PlaceUpdates(move.node, part, {part}, finder);
  }

 private:
  // Places the kernels that add node `from` to accumulators, each after the nodes that lead to it.
  void PlaceUpdates(int reduction, int from, const std::vector<int>& chain, const MoveFinder& finder) {
    for (int reader : finder.ReadersOf(from)) {
      if (reader == order_.size() || !order_.Accumulates(reader)) continue;
      bool reads_others = std::ranges::any_of(order_.At(reader).inputs, [&](const Var& in) {
        return finder.IndexOf(in) != from && in.node().op != Op::kLeaf;
      });
      if (reads_others) continue;
      std::vector<int> nodes = chain;
      nodes.push_back(reader);
      order_.Place(nodes, NextBucket(reduction));
    }
  }

  Position Ready(const Move& move) const { return move.ready < 0 ? Position{} : order_.PositionOf(move.ready); }
  int FirstReader(const Bucket& bucket) const {
    return std::ranges::min_element(bucket, {}, &Move::first_reader)->first_reader;
  }

  // No block computes while the gradients of the last block are reduced that has any. So they are reduced in parts,
  // while the block computes. There is one such block per op and axis.
  void SplitLast(std::vector<Bucket>& buckets) const {
    std::map<std::pair<Op, int64_t>, size_t> last;
    for (size_t b = 0; b < buckets.size(); b++) {
      const Node& node = order_.At(buckets[b].front().node);
      if (!IsInRepeatedBlock(node)) continue;
      size_t& latest = last.emplace(std::pair(node.op, node.attrs.Int("axis")), b).first->second;
      if (Ready(buckets[b].back()) > Ready(buckets[latest].back())) latest = b;
    }
    for (const auto& [key, b] : last) {
      std::vector<Bucket> parts = order_.PartsOf(buckets[b]);
      buckets[b] = std::move(parts[0]);
      buckets.insert(buckets.end(), parts.begin() + 1, parts.end());
    }
  }

  // Returns where a bucket goes: where the last of its operands is ready. Kernels wait for collectives that stay and
  // are ready then too, so those come first.
  Position Behind(const Bucket& bucket) const {
    Position behind = Ready(bucket.back());
    int end = FirstReader(bucket);
    if (AddsReduced(bucket.back())) {
      Position later = NextBucket(bucket.back().ready);
      return later.slot < end ? Position{later.slot, later.depth, 0} : behind;
    }
    for (int i = behind.slot + 1; i < std::min(end, order_.size()); i++) {
      if (order_.IsKernel(i)) break;
      if (IsCollective(order_.At(i).op) && !order_.Moves(i)) behind = {i, 0, 0};
    }
    return behind;
  }
  // Whether kernels lead to the collective from what another one returns, as those that add to accumulators.
  bool AddsReduced(const Move& move) const {
    return move.ready >= 0 && IsCollective(order_.At(move.ready).op) &&
           std::ranges::any_of(move.chain, [this](int i) { return order_.IsKernel(i); });
  }

  // Returns where the next reductions over the axis of node i are that begin after kernels and are not much smaller;
  // after all nodes if there are none. When they begin, that of node i is likely to be over.
  Position NextBucket(int i) const {
    Position at = order_.PositionOf(i), next{order_.size(), 0, 0};
    for (int j = 0; j < order_.size(); j++) {
      const Position& there = order_.PositionOf(j);
      if (at < there && there < next && IsOnAxisOf(i, j) && !IsMuchSmaller(order_.BytesOf(j), order_.BytesOf(i)) &&
          ComputesBetween(at.slot, there.slot))
        next = there;
    }
    return next;
  }
  bool IsOnAxisOf(int i, int j) const {
    const Node& other = order_.At(j);
    return IsCollective(other.op) && ReducesOverRanks(other.op) &&
           other.attrs.Int("axis") == order_.At(i).attrs.Int("axis");
  }
  bool ComputesBetween(int first, int last) const {
    for (int i = first + 1; i <= last; i++)
      if (order_.IsKernel(i) && order_.PositionOf(i).slot == i) return true;
    return false;
  }

  Order& order_;
};

}  // namespace

// Reductions of reductions, for example over two axes, are placed after those that feed them.
void PlaceReductions(const std::vector<Move>& reductions, const MoveFinder& finder, Order& order) {
  ReductionPlacer placer(order);
  int levels = 0;
  for (const Move& move : reductions) levels = std::max(levels, move.level + 1);
  for (int level = 0; level < levels; level++) {
    std::vector<Move> now;
    std::ranges::copy_if(reductions, std::back_inserter(now), [&](const Move& move) { return move.level == level; });
    placer.PlaceTogether(std::move(now));
  }
  for (const Move& move : reductions) placer.PlaceUpdates(move, finder);
}

}  // namespace weft
