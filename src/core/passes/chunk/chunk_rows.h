// Rows of a local node: a dim of its operands and results along which parts of the results need only the same parts of
// the operands. The labels of the op's record say which dims these are. And how Chunk cuts them.
#pragma once
#include <cstdint>
#include <optional>

#include "weft/core/base/mesh_shape.h"
#include "weft/core/ir/node.h"

namespace weft {

// Per operand and per result, the dim that is the rows; -1: the operand has none and is read as a whole. All results
// have rows.
struct Rows {
  absl::InlinedVector<int, 3> in;
  absl::InlinedVector<int, 2> out;
  bool operator==(const Rows&) const = default;
};

// Returns the rows of a node if dim `dim` of operand or result `index` can be rows. Returns nullopt if the node
// contracts the dim, needs all of it at once, or computes values that depend on the position in it.
std::optional<Rows> RowsOfOperand(const Node& node, size_t index, int dim);
std::optional<Rows> RowsOfResult(const Node& node, size_t index, int dim);

// How rows are cut. A dim of `extent` elements is `pieces` equal parts, such as the shards of its ranks, and each part
// is cut into `chunks` at the same places. Chunk j is the j-th range of every part.
struct Cut {
  int64_t extent = 0, pieces = 1;
  int chunks = 1;
  int64_t piece() const { return extent / pieces; }
  int64_t first(int j) const { return piece() * j / chunks; }    // in a piece
  int64_t size(int j) const { return first(j + 1) - first(j); }  // of chunk j in a piece
  int64_t rows(int j) const { return size(j) * pieces; }         // of chunk j
  bool operator==(const Cut&) const = default;
};

struct InChunks {
  Cut cut;
  Rows rows;
};

inline const ValueInfo& InfoOf(const Var& v) { return v.node().outputs[size_t(v.index())]; }
// Returns how many ranks shard the dim.
int64_t RanksOf(const ValueInfo& info, int dim, const MeshShape& mesh);

// Whether a rank's chunks of the value lie one after the other in its memory, so that they are views of the whole
// value: no dim comes before the rows, and the rank has one of the pieces.
bool LieInOrder(const ValueInfo& whole, int dim, const Cut& cut, const MeshShape& mesh);

}  // namespace weft
