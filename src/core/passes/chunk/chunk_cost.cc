#include "weft/core/passes/chunk/chunk_cost.h"

#include <algorithm>

#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/passes/node_time.h"

namespace weft {
namespace {

double BytesOfValue(const Var& v) { return double(BytesOf(InfoOf(v))); }

}  // namespace

// In the middle of a chain, chunks of sequences share no kernel, so each hides the collectives of the others. Where
// chunks begin or end, and with tokens in attention, the last one waits for its own.
double ChunkCost::HiddenPart(int i) const {
  const auto& [cut, rows] = *chosen_[size_t(i)];
  bool goes_on = rows.out[0] == 0 && !links_.Before(i, chosen_).empty() && !links_.After(i, chosen_).empty();
  return goes_on ? 1 : 1 - 1.0 / cut.chunks;
}

// The time to join results that are read whole, and to cut operands that are. Each byte is read and written.
double ChunkCost::CopyTime(int i) const {
  const Node& node = links_.At(i);
  double bytes = 0;
  for (int o = 0; o < int(node.outputs.size()); o++)
    if (links_.IsReadWhole(i, o, chosen_) && !links_.LieInOrder(i, o, chosen_))
      bytes += double(BytesOf(node.outputs[size_t(o)]));
  for (size_t k = 0; k < node.inputs.size(); k++) {
    const Var& in = node.inputs[k];
    const auto& [cut, rows] = *chosen_[size_t(i)];
    if (rows.in[k] < 0 || links_.GetsChunks({i, k}, chosen_) || links_.of_parameters(links_.IndexOf(in)) ||
        LieInOrder(InfoOf(in), rows.in[k], cut, mesh_))
      continue;
    bool first = std::ranges::none_of(links_.readers(links_.IndexOf(in)), [&](const Links::Reader& r) {
      return r.node < i && links_.Result(r) == in.index() && chosen_[size_t(r.node)];
    });
    if (first) bytes += BytesOfValue(in);
  }
  return 2 * bytes;
}

double ChunkCost::LinkTime(int collective) const {
  const Node& node = links_.At(collective);
  double bytes = std::max(BytesOfValue(node.inputs[0]), double(BytesOf(node.outputs[0]))),
         ranks = mesh_.sizes[size_t(node.attrs.Int("axis"))];
  return link_time_ * FindCollectiveRow(node.op)->cost * bytes * (ranks - 1) / ranks;
}

// The time of the collectives that chunks of the product wait for, and of those that wait for its chunks. Those that
// another product separates from it do not count.
double ChunkCost::LinkTimeAround(int product) const {
  double time = 0;
  for (bool up : {true, false}) {
    std::vector<int> todo{product};
    absl::flat_hash_set<int> seen{product};
    while (!todo.empty()) {
      int i = todo.back();
      todo.pop_back();
      for (int next : up ? links_.Before(i, chosen_) : links_.After(i, chosen_)) {
        if (!seen.insert(next).second || LocalFlops(links_.At(next)) > 0) continue;
        if (IsCollective(links_.At(next).op))
          time += LinkTime(next);
        else
          todo.push_back(next);
      }
    }
  }
  return time;
}

bool ChunkCost::Pays(int product) const {
  double link = LinkTimeAround(product);
  // A product between others hides no collective of its own, but its operands and results stay in chunks.
  if (link == 0) return true;
  return CopyTime(product) <= HiddenPart(product) * std::min(NodeTime(links_.At(product)), link);
}

// Gradients of weights hide collectives of the backward pass as they are, so chunks can only save the rest.
double ChunkCost::Saving(Phase phase) const {
  double copies = 0, link = 0, hidden = 0, fillers = 0;
  for (int i = 0; i < links_.size(); i++) {
    const Node& node = links_.At(i);
    if (node.phase != phase) continue;
    if (phase == Phase::kBackward && LocalFlops(node) > 0 && !links_.serves(i)) fillers += NodeTime(node);
    if (!chosen_[size_t(i)]) continue;
    copies += CopyTime(i);
    if (!IsCollective(node.op)) continue;
    link += LinkTime(i);
    hidden += HiddenPart(i) * LinkTime(i);
  }
  return link > fillers ? hidden * (1 - fillers / link) - copies : -copies;
}

}  // namespace weft
