// FlashRules: the options of a call, and the range of segments of each tile of tokens, by which flash skips tiles.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_rules.cuh"

namespace weft::cuda {

// The rules of a call without options. Kernels with these rules know only a causal mask.
struct NoRules {};

struct FlashRules {
  SdpaRules scores;
  const SegmentRange *of_queries = nullptr, *of_keys = nullptr;  // [B, SegmentTiles(T or S)]; null: no segments
  int query_tiles = 0, key_tiles = 0;                            // per sequence

  // Launches the kernel that finds the ranges. They are `used` bytes into the workspace.
  FlashRules(const KernelCall& call, size_t used);
};

}  // namespace weft::cuda
