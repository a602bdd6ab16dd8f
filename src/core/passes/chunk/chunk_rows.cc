#include "weft/core/passes/chunk/chunk_rows.h"

#include <algorithm>
#include <ranges>

#include "weft/core/ir/record.h"
#include "weft/core/ir/storage.h"
#include "weft/core/passes/parts.h"
#include "weft/core/runtime/kernel.h"

namespace weft {
namespace {

bool Contains(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Returns where the labels have `label`: -1 if nowhere, nullopt if several times.
std::optional<int> DimOf(const std::string& labels, char label) {
  size_t at = labels.find(label);
  if (at == std::string::npos) return -1;
  if (labels.find(label, at + 1) != std::string::npos) return std::nullopt;
  return int(at);
}

bool IsWhole(const Dims& dims, char label) {
  return Contains(dims.blocked, label) || Contains(dims.whole, label) || Contains(dims.positions, label) ||
         std::ranges::any_of(dims.groups,
                             [label](const Dims::Group& g) { return g.merged == label || g.outer == label; });
}

std::optional<Rows> RowsAt(const Dims& dims, char label) {
  Rows rows;
  if (IsWhole(dims, label)) return std::nullopt;
  for (const std::string& labels : dims.in) {
    std::optional<int> dim = DimOf(labels, label);
    if (!dim) return std::nullopt;
    rows.in.push_back(*dim);
  }
  for (const std::string& labels : dims.out) {
    std::optional<int> dim = DimOf(labels, label);
    if (!dim || *dim < 0) return std::nullopt;
    rows.out.push_back(*dim);
  }
  return rows;
}

bool MayHaveRows(const Node& node) {
  return Record(node.op).by_rows &&
         std::ranges::none_of(node.inputs, [](const Var& x) { return IsShapeOnly(x.node()); });
}

}  // namespace

int64_t RanksOf(const ValueInfo& info, int dim, const MeshShape& mesh) {
  int64_t ranks = 1;
  for (int axis : info.sharding.DimAxes(dim)) ranks *= mesh.sizes[size_t(axis)];
  return ranks;
}

bool LieInOrder(const ValueInfo& whole, int dim, const Cut& cut, const MeshShape& mesh) {
  int64_t row = int64_t(SizeOf(whole.dtype));  // bytes
  for (size_t d = size_t(dim) + 1; d < whole.shape.size(); d++) row *= whole.shape[d];
  auto aligned = [&](int j) { return cut.first(j) * row % kSliceAlign == 0; };
  return AreRows(whole.shape, dim) && RanksOf(whole, dim, mesh) == cut.pieces &&
         std::ranges::all_of(std::views::iota(0, cut.chunks), aligned);
}

std::optional<Rows> RowsOfOperand(const Node& node, size_t index, int dim) {
  if (!MayHaveRows(node)) return std::nullopt;
  Dims dims = Record(node.op).dims(node);
  return RowsAt(dims, dims.in[index][size_t(dim)]);
}

std::optional<Rows> RowsOfResult(const Node& node, size_t index, int dim) {
  if (!MayHaveRows(node)) return std::nullopt;
  Dims dims = Record(node.op).dims(node);
  return RowsAt(dims, dims.out[index][size_t(dim)]);
}

}  // namespace weft
