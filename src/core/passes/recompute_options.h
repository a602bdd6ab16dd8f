// RecomputeOptions: which values of the forward pass the backward pass computes again (recompute.h).
#pragma once
#include <cstdint>

namespace weft {

enum class RecomputeMode : uint8_t {
  kNone,
  kSelective,  // products, attention and collectives are computed once, and of the rest as few bytes are kept as
               // possible
  kFull,       // all of a block is computed again
  kBudget,     // as much as `share` says
};

struct RecomputeOptions {
  RecomputeMode mode = RecomputeMode::kNone;
  // kBudget only, from 0 (only views are computed again) to 1 (as few bytes are kept as possible). In between, the
  // values come first that free the most bytes for the time that they take, and of equal ones those of early blocks.
  double share = 0;
};

}  // namespace weft
