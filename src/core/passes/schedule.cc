#include "weft/core/passes/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/structural.h"
#include "weft/core/passes/block.h"

namespace weft {
namespace {

// The sort key of a node. It comes after node `slot` of the old order. Within a slot, nodes nearer to the leaves, of
// smaller depth, come first.
struct Position {
  int slot = -1, depth = 0, bucket = 0;
  auto operator<=>(const Position&) const = default;
};

// A collective to move, with the chain of nodes that leads to it and moves with it.
struct Move {
  int node;
  std::vector<int> chain;  // from the operand on, in order
  int ready;               // the node that the chain starts from; -1: only leaves
  int first_reader;
  int level = 0;  // number of reductions in sequence before it
};

class Scheduler {
 public:
  Scheduler(const LocalProgram& program, Moved moved) : program_(program), moved_(moved) {}

  LocalProgram Run() {
    if (std::ranges::none_of(program_.graph.nodes, [](const auto& node) { return IsCollective(node->op); }))
      return program_;
    Number();
    std::vector<Move> gathers, reductions;
    for (int i = 0; i < size(); i++)
      if (std::optional<Move> move = MoveOf(i)) (At(i).op == Op::kAllGather ? gathers : reductions).push_back(*move);
    if (gathers.empty() && reductions.empty()) return program_;
    PlaceGathers(gathers);
    PlaceReductions(reductions);
    return {Ordered(), program_.mesh, program_.inlined};
  }

 private:
  int size() const { return int(program_.graph.nodes.size()); }
  const Node& At(int i) const { return *program_.graph.nodes[size_t(i)]; }
  bool IsLeaf(int i) const { return At(i).op == Op::kLeaf; }

  void Number() {
    for (int i = 0; i < size(); i++) {
      index_[&At(i)] = i;
      positions_.push_back({IsLeaf(i) ? -1 : i, 0, 0});
    }
    readers_.resize(size_t(size()));
    for (int i = 0; i < size(); i++)
      for (const Var& in : At(i).inputs) readers_[size_t(index_.at(&in.node()))].insert(i);
    for (auto* list : {&program_.graph.outputs, &program_.graph.writes})
      for (const NamedValue& named : *list) readers_[size_t(index_.at(&named.value.node()))].insert(size());
  }

  // Returns the one operand of a node that is no leaf: -1 if there is none, nullopt if there are several.
  std::optional<int> OperandOf(int i) const {
    int found = -1;
    for (const Var& in : At(i).inputs) {
      int operand = index_.at(&in.node());
      if (IsLeaf(operand)) continue;
      if (found >= 0 && found != operand) return std::nullopt;
      found = operand;
    }
    return found;
  }

  // Appends the nodes that lead from leaves to node i, and i. Returns whether there are only leaves at their ends, and
  // on the way only nodes of one operand, or concats of shards that are gathered together.
  bool ChainTo(int i, std::vector<int>& chain) const {
    if (IsLeaf(i)) return true;
    if (IsCollective(At(i).op) || !(OperandOf(i) || IsPacked(At(i).attrs))) return false;
    for (const Var& in : At(i).inputs)
      if (!ChainTo(index_.at(&in.node()), chain)) return false;
    if (std::ranges::find(chain, i) == chain.end()) chain.push_back(i);
    return true;
  }
  std::optional<Move> GatherOf(int i) const {
    Move move{.node = i, .chain = {}, .ready = -1, .first_reader = *readers_[size_t(i)].begin()};
    for (const Var& in : At(i).inputs)
      if (!ChainTo(index_.at(&in.node()), move.chain)) return std::nullopt;
    return move;
  }

  // Returns the move of a node, if it is a gather of leaves or any reduction.
  std::optional<Move> MoveOf(int i) const {
    const Node& node = At(i);
    if (!IsCollective(node.op)) return std::nullopt;
    bool reduces = ReducesOverRanks(node.op);
    if (reduces && moved_ == Moved::kNotInterleaved && node.phase != Phase::kOptimizer) return std::nullopt;
    std::optional<int> source = OperandOf(i);
    if ((!reduces && node.op != Op::kAllGather) || !source || readers_[size_t(i)].empty()) return std::nullopt;
    if (!reduces) return GatherOf(i);
    Move move{.node = i, .chain = {}, .ready = -1, .first_reader = *readers_[size_t(i)].begin()};
    for (int at = *source; at >= 0;) {
      std::optional<int> operand = OperandOf(at);
      if (!operand || IsCollective(At(at).op) || readers_[size_t(at)].size() > 1) {
        move.ready = at;
        break;
      }
      move.chain.push_back(at);
      at = *operand;
    }
    std::reverse(move.chain.begin(), move.chain.end());
    return move;
  }

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
    for (size_t b = 0; b < buckets.size(); b++)
      Place(buckets[b], {b > 0 ? buckets[b - 1].front().first_reader - 1 : -1, 0, 0});
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
  void PlaceReductions(std::vector<Move>& reductions) {
    absl::flat_hash_map<int, int> level_of;
    int levels = 1;
    for (Move& move : reductions) {
      auto operand = level_of.find(move.ready);
      move.level = level_of[move.node] = operand == level_of.end() ? 0 : operand->second + 1;
      levels = std::max(levels, move.level + 1);
    }
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
    auto close = [this](const Bucket& bucket) { Place(bucket.moves, Ready(bucket.moves.back())); };
    for (const Move& move : reductions) {
      const Node& node = At(move.node);
      Key key{node.op, node.attrs.Int("axis"), BlockOf(node)};
      auto it = open.find(key);
      if (it != open.end() && Ready(move).slot >= it->second.first_reader) {
        close(it->second);
        open.erase(it);
        it = open.end();
      }
      if (it == open.end()) it = open.emplace(key, Bucket{{}, move.first_reader}).first;
      it->second.moves.push_back(move);
      it->second.first_reader = std::min(it->second.first_reader, move.first_reader);
    }
    for (const auto& [key, bucket] : open) close(bucket);
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
  Moved moved_;
  absl::flat_hash_map<const Node*, int> index_;
  std::vector<std::set<int>> readers_;  // per node; outputs and writes count as read at the program's end
  std::vector<Position> positions_;
  int buckets_ = 0;
};

}  // namespace

LocalProgram Schedule(const LocalProgram& program, Moved moved) {
  LocalProgram scheduled = Scheduler(program, moved).Run();
  if (VerifiesPasses()) VerifyLocal(scheduled.graph, scheduled.mesh);
  return scheduled;
}

}  // namespace weft
