// How attention of few queries is split over blocks (attention/sdpa_split.cu). Host code without CUDA; sdpa_sizes.cc
// has it.
#pragma once
#include "weft/kernels/cuda/plan/machine.h"
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

inline constexpr int kMostSplits = 2 * kProcessors;

// A block takes one query of `rows` query heads that share a KV head, and one of `splits` parts of the keys that the
// query sees. The last block of a query and its heads joins the parts.
struct SdpaSplit {
  bool takes = false;  // whether the kernel runs the call; false for gradients
  int rows = 0;        // heads of a block: 1, 4 or 8
  int chunks = 0;      // blocks for the heads of a KV head
  int splits = 0;
  int tiles = 0;     // B x T x G x chunks, each with `splits` blocks
  size_t bytes = 0;  // of workspace: partial sums

  explicit SdpaSplit(const KernelCall& call);
};

}  // namespace weft::cuda
