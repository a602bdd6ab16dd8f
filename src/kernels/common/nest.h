// Nest: nested loops over one box of strided tensors, shared by several operands. Host code for the kernels of every
// device.
#pragma once
#include "weft/core/host/rounding.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

inline constexpr int kMaxOperands = 8;
using Offsets = std::array<int64_t, kMaxOperands>;  // element offsets, one per operand

// Nested loops over one box, with a stride per operand; the last loop is the innermost. Call Add for each loop, then
// Collapse once.
struct Nest {
  int rank = 0, operands = 0;
  std::array<int64_t, kMaxRank> extents;  // of the first `rank` loops
  std::array<Offsets, kMaxRank> strides;  // [loop][operand]

  explicit Nest(int num_operands) : operands(num_operands) {
    extents[0] = 0;  // so that an empty nest has a first loop of nothing; the rest is set loop by loop
    strides[0] = {};
  }
  // Returns the collapsed nest over views.size() views with equal extents.
  static Nest Over(std::span<const TensorView* const> views);

  void Add(int64_t extent, const Offsets& stride_of);
  void Collapse();                 // removes loops of extent 1 and merges loops that all operands walk as one
  int64_t Count() const;           // total number of steps
  Offsets At(int64_t step) const;  // element offsets at a step number
  Nest Only(int operand) const;    // the walk of a single operand, collapsed
  int64_t inner_extent() const { return rank ? extents[size_t(rank - 1)] : 1; }
  int64_t inner_stride(int operand) const { return rank ? strides[size_t(rank - 1)][size_t(operand)] : 1; }
};

}  // namespace weft
