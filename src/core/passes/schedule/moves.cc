#include "weft/core/passes/schedule/moves.h"

#include <algorithm>

#include "weft/core/ir/collective_row.h"
#include "weft/core/ops/structural.h"

namespace weft {

MoveFinder::MoveFinder(const Graph& graph, Moved moved) : graph_(graph), moved_(moved) {
  for (int i = 0; i < size(); i++) index_[&At(i)] = i;
  readers_.resize(size_t(size()));
  for (int i = 0; i < size(); i++)
    for (const Var& in : At(i).inputs) readers_[size_t(IndexOf(in))].insert(i);
  for (auto* list : {&graph.outputs, &graph.writes})
    for (const NamedValue& named : *list) readers_[size_t(IndexOf(named.value))].insert(size());
}

std::vector<Move> MoveFinder::Gathers() const {
  std::vector<Move> gathers;
  for (int i = 0; i < size(); i++)
    if (std::optional<Move> move = GatherOf(i)) gathers.push_back(*std::move(move));
  return gathers;
}

std::vector<Move> MoveFinder::Reductions() const {
  std::vector<Move> reductions;
  absl::flat_hash_map<int, int> level_of;
  for (int i = 0; i < size(); i++) {
    std::optional<Move> move = ReductionOf(i);
    if (!move) continue;
    auto operand = level_of.find(move->ready);
    move->level = level_of[i] = operand == level_of.end() ? 0 : operand->second + 1;
    reductions.push_back(*std::move(move));
  }
  return reductions;
}

// Returns the one operand of a node that is no leaf: -1 if there is none, nullopt if there are several.
std::optional<int> MoveFinder::OperandOf(int i) const {
  int found = -1;
  for (const Var& in : At(i).inputs) {
    int operand = IndexOf(in);
    if (IsLeaf(operand)) continue;
    if (found >= 0 && found != operand) return std::nullopt;
    found = operand;
  }
  return found;
}

// Appends the nodes that lead from leaves to node i, and i. Returns whether there are only leaves at their ends, and
// on the way only nodes of one operand, or concats of shards that are gathered together.
bool MoveFinder::ChainTo(int i, std::vector<int>& chain) const {
  if (IsLeaf(i)) return true;
  if (IsCollective(At(i).op) || !(OperandOf(i) || IsPacked(At(i).attrs))) return false;
  for (const Var& in : At(i).inputs)
    if (!ChainTo(IndexOf(in), chain)) return false;
  if (std::ranges::find(chain, i) == chain.end()) chain.push_back(i);
  return true;
}

std::optional<Move> MoveFinder::GatherOf(int i) const {
  if (At(i).op != Op::kAllGather || readers_[size_t(i)].empty()) return std::nullopt;
  Move move{.node = i, .chain = {}, .ready = -1, .first_reader = *readers_[size_t(i)].begin()};
  for (const Var& in : At(i).inputs)
    if (!ChainTo(IndexOf(in), move.chain)) return std::nullopt;
  return move;
}

std::optional<Move> MoveFinder::ReductionOf(int i) const {
  const Node& node = At(i);
  bool is_placed = moved_ == Moved::kNotInterleaved && node.phase != Phase::kOptimizer;
  if (!IsCollective(node.op) || !ReducesOverRanks(node.op) || is_placed) return std::nullopt;
  std::optional<int> source = OperandOf(i);
  if (!source || readers_[size_t(i)].empty()) return std::nullopt;
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

}  // namespace weft
