// How reductions are split over blocks, and their workspaces. Host code without CUDA.
#pragma once
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

inline constexpr int kReduceThreads = 256;
inline constexpr int kReduceDown = kReduceThreads / kWarp;  // warps per block, which take turns down a dim

// The dim that a reduction removes.
struct ReduceDim {
  const void* x;
  int64_t length, step;
};

// The walk of a reduction: its outputs (operand 0: out, 1: in), and for each of them the removed dim.
struct ReducePlan {
  Nest kept{2};
  ReduceDim dim;
  bool columns;  // outputs are neighbours in the input
  int64_t parts = 1;

  explicit ReducePlan(const KernelCall& call);
  int64_t outputs() const { return kept.Count(); }
};

// Returns the bytes of the partial results, one per part and output.
size_t ReduceWorkspace(const KernelCall& call);

// Returns the number of pieces of a tensor whose squares are added up by one block each.
int64_t SquarePieces(const KernelCall& call);
size_t SumOfSquaresWorkspace(const KernelCall& call);

}  // namespace weft::cuda
