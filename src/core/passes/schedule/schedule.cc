#include "weft/core/passes/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/structural.h"
#include "weft/core/passes/accumulate.h"
#include "weft/core/passes/block.h"
#include "weft/core/passes/schedule/moves.h"

namespace weft {
namespace {

// The sort key of a node. It comes after node `slot` of the old order. Within a slot, nodes nearer to the leaves, of
// smaller depth, come first.
struct Position {
  int slot = -1, depth = 0, bucket = 0;
  auto operator<=>(const Position&) const = default;
};

class Scheduler {
 public:
  Scheduler(const LocalProgram& program, Moved moved) : program_(program), finder_(program.graph, moved) {}

  LocalProgram Run() {
    if (std::ranges::none_of(program_.graph.nodes, [](const auto& node) { return IsCollective(node->op); }))
      return program_;
    std::vector<Move> gathers = finder_.Gathers(), reductions = finder_.Reductions();
    if (gathers.empty() && reductions.empty()) return program_;
    for (const std::vector<Move>* moves : {&gathers, &reductions})
      for (const Move& move : *moves) moves_.insert(move.node);
    for (int i = 0; i < size(); i++) positions_.push_back({IsLeaf(i) ? -1 : i, 0, 0});
    PlaceGathers(gathers);
    PlaceReductions(reductions);
    for (const Move& move : reductions) PlaceUpdates(move);
    PlaceSums();
    return {Ordered(), program_.mesh, program_.inlined};
  }

 private:
  int size() const { return int(program_.graph.nodes.size()); }
  const Node& At(int i) const { return *program_.graph.nodes[size_t(i)]; }
  bool IsLeaf(int i) const { return At(i).op == Op::kLeaf; }

  // Puts the collectives of a bucket after the given position. The nodes of their chains that came later go there too,
  // by depth.
  void Place(const std::vector<Move>& bucket, Position behind) {
    buckets_++;
    int depth = behind.depth;
    for (const Move& move : bucket) {
      int at = behind.depth;
      for (int node : move.chain)  // gathers of two passes may share it
        if (Position to{behind.slot, ++at, buckets_}; node > behind.slot && to < positions_[size_t(node)])
          positions_[size_t(node)] = to;
      depth = std::max(depth, at);
    }
    for (const Move& move : bucket) positions_[size_t(move.node)] = {behind.slot, depth + 1, buckets_};
  }

  void PlaceGathers(std::vector<Move>& gathers) {
    std::stable_sort(gathers.begin(), gathers.end(),
                     [](const Move& a, const Move& b) { return a.first_reader < b.first_reader; });
    std::vector<std::vector<Move>> buckets;
    std::set<std::string> leaves;  // of the last bucket; a leaf that is gathered again is for another pass
    for (const Move& move : gathers) {
      std::string leaf = LeafOf(move);
      if (buckets.empty() || leaves.contains(leaf) || !Alike(At(buckets.back().front().node), At(move.node))) {
        buckets.emplace_back();
        leaves.clear();
      }
      buckets.back().push_back(move);
      leaves.insert(leaf);
    }
    SplitFirst(buckets);
    for (size_t b = 0; b < buckets.size(); b++) {
      // What reads a much smaller bucket, such as that of a norm, takes no time. Both buckets then go to one place.
      size_t before = b > 0 ? b - 1 : 0;
      while (before > 0 && BytesIn(buckets[before]) * 32 < BytesIn(buckets[b])) before--;
      Place(buckets[b], {b > 0 ? buckets[before].front().first_reader - 1 : -1, 0, 0});
    }
  }
  // No block computes while the first block's weights are gathered. So those that it reads first come in a bucket of
  // their own, and the others while it computes.
  void SplitFirst(std::vector<std::vector<Move>>& buckets) const {
    auto first = std::ranges::find_if(
        buckets, [this](const auto& bucket) { return IsInRepeatedBlock(At(bucket.front().node)); });
    if (first == buckets.end()) return;
    std::vector<std::vector<Move>> parts = PartsOf(*first);
    if (parts.size() < 2) return;
    std::vector<Move> rest(first->begin() + std::ptrdiff_t(parts[0].size()), first->end());
    *first = std::move(parts[0]);
    buckets.insert(first + 1, std::move(rest));
  }
  // Cuts a bucket into parts, each as small as it may be with an eighth of the bytes.
  std::vector<std::vector<Move>> PartsOf(const std::vector<Move>& bucket) const {
    size_t all = BytesIn(bucket), bytes = 0;
    std::vector<std::vector<Move>> parts;
    for (const Move& move : bucket) {
      if (parts.empty() || bytes * 8 >= all) parts.emplace_back(), bytes = 0;
      parts.back().push_back(move);
      bytes += BytesIn({move});
    }
    return parts;
  }
  size_t BytesOf(int collective) const {
    const Var& operand = At(collective).inputs[0];
    return weft::BytesOf(operand.node().outputs[size_t(operand.index())]);
  }
  size_t BytesIn(const std::vector<Move>& bucket) const {
    size_t bytes = 0;
    for (const Move& move : bucket) bytes += BytesOf(move.node);
    return bytes;
  }
  std::string LeafOf(const Move& move) const {
    for (const Var& in : At(move.chain.empty() ? move.node : move.chain.front()).inputs)
      if (in.node().op == Op::kLeaf) return in.node().attrs.Text("name");
    return "";
  }
  static bool Alike(const Node& a, const Node& b) {
    return a.op == b.op && a.attrs.Int("axis") == b.attrs.Int("axis") && BlockOf(a) == BlockOf(b);
  }

  // Reductions of reductions, for example over two axes, are placed after those that feed them.
  void PlaceReductions(const std::vector<Move>& reductions) {
    int levels = 1;
    for (const Move& move : reductions) levels = std::max(levels, move.level + 1);
    for (int level = 0; level < levels; level++) {
      std::vector<Move> now;
      for (const Move& move : reductions)
        if (move.level == level) now.push_back(move);
      std::stable_sort(now.begin(), now.end(), [this](const Move& a, const Move& b) { return Ready(a) < Ready(b); });
      PlaceTogether(now);
    }
  }
  Position Ready(const Move& move) const { return move.ready < 0 ? Position{} : positions_[size_t(move.ready)]; }

  // A bucket ends if one of its results is read before the next operand is computed.
  void PlaceTogether(const std::vector<Move>& reductions) {
    using Key = std::tuple<Op, int64_t, std::string_view>;
    struct Bucket {
      std::vector<Move> moves;
      int first_reader;
    };
    std::map<Key, Bucket> open;
    std::vector<std::vector<Move>> buckets;
    for (const Move& move : reductions) {
      const Node& node = At(move.node);
      Key key{node.op, node.attrs.Int("axis"), BlockOf(node)};
      auto it = open.find(key);
      if (it != open.end() && Ready(move).slot >= it->second.first_reader) {
        buckets.push_back(std::move(it->second.moves));
        open.erase(it);
        it = open.end();
      }
      if (it == open.end()) it = open.emplace(key, Bucket{{}, move.first_reader}).first;
      it->second.moves.push_back(move);
      it->second.first_reader = std::min(it->second.first_reader, move.first_reader);
    }
    for (auto& [key, bucket] : open) buckets.push_back(std::move(bucket.moves));
    SplitLast(buckets);
    for (const std::vector<Move>& bucket : buckets) Place(bucket, Behind(bucket));
  }
  // No block computes while the gradients of the last block are reduced that has any. So they are reduced in parts,
  // while the block computes. There is one such block per op and axis.
  void SplitLast(std::vector<std::vector<Move>>& buckets) const {
    std::map<std::pair<Op, int64_t>, size_t> last;
    for (size_t b = 0; b < buckets.size(); b++) {
      const Node& node = At(buckets[b].front().node);
      if (!IsInRepeatedBlock(node)) continue;
      size_t& latest = last.emplace(std::pair(node.op, node.attrs.Int("axis")), b).first->second;
      if (Ready(buckets[b].back()) > Ready(buckets[latest].back())) latest = b;
    }
    for (const auto& [key, b] : last) {
      std::vector<std::vector<Move>> parts = PartsOf(buckets[b]);
      buckets[b] = std::move(parts[0]);
      buckets.insert(buckets.end(), parts.begin() + 1, parts.end());
    }
  }
  // Returns where a bucket goes: where the last of its operands is ready. Kernels wait for collectives that stay and
  // are ready then too, so those come first.
  Position Behind(const std::vector<Move>& bucket) const {
    Position behind = Ready(bucket.back());
    int end = size();
    for (const Move& move : bucket) end = std::min(end, move.first_reader);
    if (AddsReduced(bucket.back())) {
      Position later = NextBucket(bucket.back().ready);
      return later.slot < end ? Position{later.slot, later.depth, 0} : behind;
    }
    for (int i = behind.slot + 1; i < end && (moves_.contains(i) || !IsKernel(At(i))); i++)
      if (IsCollective(At(i).op) && !moves_.contains(i)) behind = {i, 0, 0};
    return behind;
  }
  static bool IsKernel(const Node& node) {
    return node.op != Op::kLeaf && !IsAlias(node) && !IsShapeOnly(node) && !IsCollective(node.op);
  }

  // Whether kernels lead to the collective from what another one returns, as those that add to accumulators.
  bool AddsReduced(const Move& move) const {
    return move.ready >= 0 && IsCollective(At(move.ready).op) &&
           std::ranges::any_of(move.chain, [this](int i) { return IsKernel(At(i)); });
  }
  // Returns where the next reductions over the axis of node i are that begin after kernels and are not much smaller;
  // `size()` if there are none. When they begin, that of node i is likely to be over.
  Position NextBucket(int i) const {
    const Node& node = At(i);
    Position at = positions_[size_t(i)], next{size(), 0, 0};
    for (int j = 0; j < size(); j++) {
      const Position& there = positions_[size_t(j)];
      if (IsCollective(At(j).op) && ReducesOverRanks(At(j).op) && At(j).attrs.Int("axis") == node.attrs.Int("axis") &&
          BytesOf(j) * 32 >= BytesOf(i) && at < there && there < next && ComputesBetween(at.slot, there.slot))
        next = there;
    }
    return next;
  }
  bool ComputesBetween(int first, int last) const {
    for (int i = first + 1; i <= last; i++)
      if (IsKernel(At(i)) && positions_[size_t(i)].slot == i) return true;
    return false;
  }
  // A kernel that adds what was reduced to an accumulator would wait for that. So it runs after the next bucket has
  // begun.
  void PlaceUpdates(const Move& move) {
    for (int reader : finder_.ReadersOf(move.node)) {
      if (reader == size() || !ReadsAccumulator(At(reader), written_) || !ReadsOnly(reader, move.node)) continue;
      Position next = NextBucket(move.node), to{next.slot, next.depth + 1, ++buckets_};
      if (to < positions_[size_t(reader)]) positions_[size_t(reader)] = to;
    }
  }
  bool ReadsOnly(int reader, int node) const {
    return std::ranges::all_of(At(reader).inputs, [&](const Var& in) {
      int i = finder_.IndexOf(in);
      return i == node || IsLeaf(i);
    });
  }
  static bool IsOfBackward(const Node& node) { return node.phase != Phase::kOptimizer && node.op != Op::kLeaf; }
  // Kernels wait for the last gradients until the norm of all is known. So the sums over those of earlier blocks are
  // computed while the last ones are reduced.
  void PlaceSums() {
    int last = LastOfBackward();
    if (last < 0) return;
    Position behind = positions_[size_t(last)];
    int before = behind.slot;
    for (int i = 0; i < size(); i++)
      if (IsCollective(At(i).op) && ReducesOverRanks(At(i).op) && At(i).phase != Phase::kForward &&
          BlockOf(At(i)) == BlockOf(At(last)))
        before = std::min(before, positions_[size_t(i)].slot);
    buckets_++;
    for (int i = behind.slot + 1; i < size(); i++) {
      const Node& node = At(i);
      bool is_sum = node.phase == Phase::kOptimizer && IsKernel(node) && !node.inputs.empty() &&
                    node.outputs.size() == 1 && node.outputs[0].shape.empty();
      std::vector<int> chain;
      auto is_there = [&](const Var& in) { return IsReducedBefore(before, finder_.IndexOf(in), chain); };
      if (!is_sum || !std::ranges::all_of(node.inputs, is_there)) continue;
      chain.push_back(i);
      Position to{behind.slot, behind.depth, buckets_};
      for (int moved : chain)
        if (to.depth++; to < positions_[size_t(moved)]) positions_[size_t(moved)] = to;
    }
  }
  // Returns the last collective that reads a value of the backward pass, or -1.
  int LastOfBackward() const {
    int last = -1;
    for (int i = 0; i < size(); i++) {
      if (!IsCollective(At(i).op) || !IsOfBackward(At(i).inputs[0].node())) continue;
      if (last < 0 || positions_[size_t(last)] < positions_[size_t(i)]) last = i;
    }
    return last;
  }
  // Whether node i is a leaf, or what a collective before slot `before` returns, or a part of that or its sum with an
  // accumulator. Appends the parts and sums.
  bool IsReducedBefore(int before, int i, std::vector<int>& chain) const {
    const Node& node = At(i);
    if (IsLeaf(i) || IsCollective(node.op)) return IsLeaf(i) || positions_[size_t(i)].slot < before;
    bool adds = ReadsAccumulator(node, written_) && positions_[size_t(i)].slot < before;
    if (!adds && !IsAlias(node) && !IsPacked(node.attrs)) return false;
    for (const Var& in : node.inputs)
      if (!IsReducedBefore(before, finder_.IndexOf(in), chain)) return false;
    chain.push_back(i);
    return true;
  }

  Graph Ordered() const {
    std::vector<int> order(static_cast<size_t>(size()));
    for (int i = 0; i < size(); i++) order[size_t(i)] = i;
    std::stable_sort(order.begin(), order.end(),
                     [this](int a, int b) { return positions_[size_t(a)] < positions_[size_t(b)]; });
    Graph graph = program_.graph;
    for (size_t i = 0; i < order.size(); i++) graph.nodes[i] = program_.graph.nodes[size_t(order[i])];
    return graph;
  }

  const LocalProgram& program_;
  MoveFinder finder_;
  std::vector<Position> positions_;
  absl::flat_hash_set<int> moves_;  // the collectives that move
  absl::flat_hash_set<std::string> written_ = WrittenBy(program_.graph);
  int buckets_ = 0;
};

}  // namespace

LocalProgram Schedule(const LocalProgram& program, Moved moved) {
  LocalProgram scheduled = Scheduler(program, moved).Run();
  if (VerifiesPasses()) VerifyLocal(scheduled.graph, scheduled.mesh);
  return scheduled;
}

}  // namespace weft
