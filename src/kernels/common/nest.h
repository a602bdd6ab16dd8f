// Nest: the loops over one box of strided tensors, shared by operands. Host code of every device's kernels.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft {

inline constexpr int kMaxOperands = 8;
using Offsets = std::array<int64_t, kMaxOperands>;  // element offsets, one per operand

// Loops over one box, the last the innermost, with a stride per operand. Build with Add, then Collapse once.
struct Nest {
  int rank = 0, operands = 0;
  std::array<int64_t, kMaxRank> extents{};
  std::array<Offsets, kMaxRank> strides{};  // [loop][operand]

  explicit Nest(int num_operands) : operands(num_operands) {}
  // The box of views.size() views that have the same extents.
  static Nest Over(std::span<const TensorView* const> views);

  void Add(int64_t extent, const Offsets& stride_of);
  void Collapse();                 // drops loops of one step and joins neighbours that all operands walk as one
  int64_t Count() const;           // steps of the whole nest
  Offsets At(int64_t step) const;  // offsets at a step number
  Nest Only(int operand) const;    // the same walk of one operand alone, collapsed
  int64_t inner_extent() const { return rank ? extents[size_t(rank - 1)] : 1; }
  int64_t inner_stride(int operand) const { return rank ? strides[size_t(rank - 1)][size_t(operand)] : 1; }
};

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace weft
