#include "weft/core/passes/chunk/chunk_choice.h"

#include <algorithm>
#include <utility>

#include "weft/core/ir/collective_row.h"
#include "weft/core/passes/chunk/chunk_cost.h"
#include "weft/core/passes/node_time.h"

namespace weft {
namespace {

// The nodes that share rows with a collective of activations form an area. What remains of it, when everything that
// leads to no collective or to no product is taken away, is computed in chunks.
class Chooser {
 public:
  Chooser(const LocalProgram& program, const ChunkOptions& options, int chunks)
      : program_(program), options_(options), chunks_(chunks), links_(program), chosen_(program.graph.nodes.size()) {}

  void Run() {
    for (bool sequences : {true, false})
      for (int i = 0; i < links_.size(); i++)
        if (MovesActivations(i) && !chosen(i)) sequences ? SeedSequences(i) : SeedTokens(i);
    do Peel();
    while (!options_.chunks && DropCostly());
  }
  std::vector<std::optional<InChunks>> Take() { return std::move(chosen_); }
  bool CutsSequences() const {
    for (int i = 0; i < links_.size(); i++)
      if (IsSequences(i)) return true;
    return false;
  }
  double Saving() const { return Cost().Saving(Phase::kForward) + Cost().Saving(Phase::kBackward); }

 private:
  const Node& At(int i) const { return links_.At(i); }
  bool chosen(int i) const { return chosen_[size_t(i)].has_value(); }

  bool MovesActivations(int i) const {
    return IsCollective(At(i).op) && links_.serves(i) && !links_.of_parameters(i) && At(i).phase != Phase::kOptimizer;
  }
  // These two take the rows of a collective, and of all nodes that share them: the sequences of a batch, or if a rank
  // has too few of them, their tokens. Those of an all_reduce are the first dim that can be cut.
  void SeedSequences(int i) {
    const Node& node = At(i);
    bool keeps_them = node.op == Op::kAllReduce || node.attrs.IntOr("dim", 0) > 0;
    if (keeps_them && IsRowsOfActivation(node.inputs[0], 0)) Grow(i, 0, InfoOf(node.inputs[0]));
  }
  void SeedTokens(int i) {
    const Node& node = At(i);
    const ValueInfo& in = InfoOf(node.inputs[0]);
    if (node.op == Op::kAllGather) return Grow(i, int(node.attrs.Int("dim")), in);
    if (node.op == Op::kReduceScatter) return Grow(i, int(node.attrs.Int("dim")), node.outputs[0]);
    for (int d = 0; node.op == Op::kAllReduce && !chosen(i) && d < int(in.shape.size()); d++)
      if (IsRowsOfActivation(node.inputs[0], d)) Grow(i, d, in);
  }
  // Whether the dim does not come from a parameter.
  bool IsRowsOfActivation(const Var& v, int dim) const {
    std::optional<Rows> rows = RowsOfResult(v.node(), size_t(v.index()), dim);
    for (size_t k = 0; rows && k < rows->in.size(); k++)
      if (rows->in[k] >= 0 && links_.of_parameters(links_.IndexOf(v.node().inputs[k]))) return false;
    return rows.has_value();
  }

  // Adds the seed and all nodes that share its rows, if their dim can be cut. `sharded` is the seed's operand or result
  // that more ranks shard.
  void Grow(int seed, int dim, const ValueInfo& sharded) {
    Cut cut{sharded.global[size_t(dim)], RanksOf(sharded, dim, program_.mesh), chunks_};
    if (cut.extent % cut.pieces || cut.piece() < cut.chunks) return;
    std::vector<int> todo;
    Add(seed, Rows{{dim}, {dim}}, cut, todo);
    while (!todo.empty()) {
      int i = todo.back();
      todo.pop_back();
      Rows rows = chosen_[size_t(i)]->rows;
      for (const Links::Reader& r : links_.readers(i))
        Add(r.node, RowsOfOperand(At(r.node), r.operand, rows.out[size_t(links_.Result(r))]), cut, todo);
      for (size_t k = 0; k < rows.in.size(); k++) {
        const Var& in = At(i).inputs[k];
        if (rows.in[k] >= 0)
          Add(links_.IndexOf(in), RowsOfResult(in.node(), size_t(in.index()), rows.in[k]), cut, todo);
      }
    }
  }
  void Add(int i, const std::optional<Rows>& rows, const Cut& cut, std::vector<int>& todo) {
    if (!rows || chosen(i) || links_.of_parameters(i) || At(i).phase == Phase::kOptimizer || !Fits(At(i), *rows, cut))
      return;
    chosen_[size_t(i)] = {cut, *rows};
    todo.push_back(i);
  }
  // Whether all ranks hold the same pieces of each value, and at least one operand has rows.
  bool Fits(const Node& node, const Rows& rows, const Cut& cut) const {
    auto fits = [&](const ValueInfo& info, int dim) {
      return info.global[size_t(dim)] == cut.extent && cut.pieces % RanksOf(info, dim, program_.mesh) == 0;
    };
    bool any = false;
    for (size_t k = 0; k < rows.in.size(); k++) {
      if (rows.in[k] < 0) continue;
      const Var& in = node.inputs[k];
      if (!fits(InfoOf(in), rows.in[k])) return false;
      any = true;
    }
    for (size_t o = 0; o < rows.out.size(); o++)
      if (!fits(node.outputs[o], rows.out[o])) return false;
    return any;
  }

  void Peel() {
    bool changed = true;
    while (std::exchange(changed, false)) {
      for (int i = 0; i < links_.size(); i++)
        if (chosen(i) && !Stays(i)) chosen_[size_t(i)].reset(), changed = true;
      changed |= DropUnconnected();
    }
  }
  // Whether what is in chunks before and after the node makes chunks of it worthwhile.
  bool Stays(int i) const {
    bool before = !links_.Before(i, chosen_).empty(), after = !links_.After(i, chosen_).empty();
    const Node& node = At(i);
    if (node.op == Op::kAllGather) return after;
    if (IsCollective(node.op)) return before;
    return LocalFlops(node) > 0 ? before || after : before && after;
  }
  // Drops areas without a collective or without a product.
  bool DropUnconnected() {
    std::vector<bool> seen(size_t(links_.size()));
    bool dropped = false;
    for (int i = 0; i < links_.size(); i++) {
      if (!chosen(i) || seen[size_t(i)]) continue;
      std::vector<int> area = links_.Area(i, chosen_);
      bool moves = false, computes = false;
      for (int node : area) {
        seen[size_t(node)] = true;
        moves |= IsCollective(At(node).op);
        computes |= LocalFlops(At(node)) > 0;
      }
      if (moves && computes) continue;
      for (int node : area) chosen_[size_t(node)].reset();
      dropped = true;
    }
    return dropped;
  }

  // Drops products whose chunks save no time, or a phase whose chunks save none together. Returns whether it did.
  bool DropCostly() {
    ChunkCost cost = Cost();
    bool dropped = DropSmallSequences();
    for (int i = 0; i < links_.size(); i++)
      if (chosen(i) && LocalFlops(At(i)) > 0 && (!Fills(i) || !cost.Pays(i)))
        chosen_[size_t(i)].reset(), dropped = true;
    for (Phase phase : {Phase::kBackward, Phase::kForward})
      if (!dropped && cost.Saving(phase) <= 0) dropped = Drop(phase);
    return dropped;
  }
  bool Drop(Phase phase) {
    bool dropped = false;
    for (int i = 0; i < links_.size(); i++)
      if (chosen(i) && At(i).phase == phase) chosen_[size_t(i)].reset(), dropped = true;
    return dropped;
  }
  ChunkCost Cost() const { return {links_, program_.mesh, chosen_, options_.link_time}; }
  bool IsSequences(int i) const { return chosen(i) && chosen_[size_t(i)]->rows.out[0] == 0; }
  bool IsLarge(int product) const {
    return NumElements(At(product).outputs[0].shape) / chunks_ >= options_.least_outputs;
  }
  // Whether its chunks are large. One of sequences stays between others, because it would join them.
  bool Fills(int product) const {
    bool between = !links_.Before(product, chosen_).empty() && !links_.After(product, chosen_).empty();
    return (IsSequences(product) && between) || IsLarge(product);
  }
  // Drops sequences in chunks if most of the products' time is in small ones. Returns whether it did.
  bool DropSmallSequences() {
    double large = 0, all = 0;
    for (int i = 0; i < links_.size(); i++) {
      if (!IsSequences(i) || LocalFlops(At(i)) == 0) continue;
      all += NodeTime(At(i));
      large += IsLarge(i) ? NodeTime(At(i)) : 0;
    }
    if (2 * large >= all) return false;
    for (int i = 0; i < links_.size(); i++)
      if (IsSequences(i)) chosen_[size_t(i)].reset();
    return true;
  }

  const LocalProgram& program_;
  ChunkOptions options_;
  int chunks_;
  Links links_;
  std::vector<std::optional<InChunks>> chosen_;
};

}  // namespace

std::vector<std::optional<InChunks>> ChooseChunks(const LocalProgram& program, const ChunkOptions& options) {
  std::vector<std::optional<InChunks>> best(program.graph.nodes.size());
  double most = 0;
  for (int chunks : options.chunks ? std::vector{options.chunks} : std::vector{2, 4}) {
    Chooser chooser(program, options, chunks);
    chooser.Run();
    double saving = chooser.Saving();
    if (!options.chunks && saving <= most) continue;
    most = saving;
    bool sequences = chooser.CutsSequences();
    best = chooser.Take();
    if (sequences) break;  // two hide each other's collectives already
  }
  return best;
}

}  // namespace weft
