// How reductions are shared out over blocks, and their workspaces. Host code without CUDA.
#pragma once
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

inline constexpr int kReduceThreads = 256;
inline constexpr int kReduceDown = kReduceThreads / kWarp;  // warps of a block that go down a dim

// The dim that a reduction takes away.
struct ReduceDim {
  const void* x;
  int64_t length, step;
};

// What a reduction walks: its outputs (operand 0: out, 1: in), and for each the dim that disappears.
struct ReducePlan {
  Nest kept{2};
  ReduceDim dim;
  bool columns;  // outputs are neighbours in the input
  int64_t parts = 1;

  explicit ReducePlan(const KernelCall& call);
  int64_t outputs() const { return kept.Count(); }
};

// What is known of each part of each output.
size_t ReduceWorkspace(const KernelCall& call);

// Pieces of a tensor whose squares blocks add up.
int64_t SquarePieces(const KernelCall& call);
size_t SumOfSquaresWorkspace(const KernelCall& call);

}  // namespace weft::cuda
