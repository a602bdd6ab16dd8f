#include "weft/core/passes/chunk/chunk_links.h"

#include <algorithm>

#include "weft/core/ops/structural.h"
#include "weft/core/passes/node_time.h"
#include "weft/core/passes/of_parameters.h"

namespace weft {

Links::Links(const LocalProgram& program)
    : program_(program),
      readers_(program.graph.nodes.size()),
      of_parameters_(OfParameters(program.graph)),
      serves_(program.graph.nodes.size()) {
  for (int i = 0; i < size(); i++) {
    const Node& node = At(i);
    index_[&node] = i;
    for (size_t k = 0; k < node.inputs.size(); k++) readers_[size_t(IndexOf(node.inputs[k]))].push_back({i, k});
  }
  for (auto* list : {&program.graph.outputs, &program.graph.writes})
    for (const NamedValue& value : *list) named_.insert(IndexOf(value.value));
  for (int i = size() - 1; i >= 0; i--)
    serves_[size_t(i)] = std::ranges::any_of(readers(i), [this](const Reader& r) {
      const Node& node = At(r.node);
      return node.phase != Phase::kOptimizer && (LocalFlops(node) > 0 || serves(r.node));
    });
}

bool Links::GetsChunks(const Reader& r, ChosenChunks chosen) const {
  const auto &to = chosen[size_t(r.node)], &from = chosen[size_t(IndexOf(At(r.node).inputs[r.operand]))];
  return to && from && to->cut == from->cut && to->rows.in[r.operand] == from->rows.out[size_t(Result(r))];
}
std::vector<int> Links::Before(int i, ChosenChunks chosen) const {
  std::vector<int> nodes;
  for (size_t k = 0; k < At(i).inputs.size(); k++)
    if (GetsChunks({i, k}, chosen)) nodes.push_back(IndexOf(At(i).inputs[k]));
  return nodes;
}
std::vector<int> Links::After(int i, ChosenChunks chosen) const {
  std::vector<int> nodes;
  for (const Reader& r : readers(i))
    if (GetsChunks(r, chosen)) nodes.push_back(r.node);
  return nodes;
}
std::vector<int> Links::Area(int i, ChosenChunks chosen) const {
  std::vector<int> area{i};
  absl::flat_hash_set<int> seen{i};
  for (size_t at = 0; at < area.size(); at++)
    for (const auto& nodes : {Before(area[at], chosen), After(area[at], chosen)})
      for (int other : nodes)
        if (seen.insert(other).second) area.push_back(other);
  return area;
}
bool Links::IsReadWhole(int i, int result, ChosenChunks chosen) const {
  auto reads_whole = [&](const Reader& r) {
    return !GetsChunks(r, chosen) || (IsView(r.node, chosen) && IsReadWhole(r.node, 0, chosen));
  };
  return named(i) ||
         std::ranges::any_of(readers(i), [&](const Reader& r) { return Result(r) == result && reads_whole(r); });
}
bool Links::IsPart(int i, ChosenChunks chosen) const {
  return chosen[size_t(i)] && At(i).op == Op::kSlice && IsPacked(At(i).attrs) && GetsChunks({i, 0}, chosen);
}
bool Links::IsView(int i, ChosenChunks chosen) const {
  if (!IsPart(i, chosen)) return false;
  const auto& [cut, rows] = *chosen[size_t(i)];
  const Var& whole = At(i).inputs[0];
  int64_t read = 0;
  for (const Reader& r : readers(IndexOf(whole)))
    if (Result(r) == whole.index() && IsPart(r.node, chosen) && IsReadWhole(r.node, 0, chosen))
      read += NumElements(At(r.node).outputs[0].shape);
  return 2 * read >= NumElements(whole.shape()) && weft::LieInOrder(InfoOf(whole), rows.in[0], cut, program_.mesh);
}
bool Links::LieInOrder(int i, int result, ChosenChunks chosen) const {
  const auto& [cut, rows] = *chosen[size_t(i)];
  if (IsPart(i, chosen)) return IsView(i, chosen);
  return weft::LieInOrder(At(i).outputs[size_t(result)], rows.out[size_t(result)], cut, program_.mesh);
}

}  // namespace weft
