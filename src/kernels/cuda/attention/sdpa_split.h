// The kernel of flash for few queries: in sdpa_split.cu.
#pragma once
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// Runs a call that `split` takes, with a workspace of at least split.bytes.
void SdpaFewQueries(const KernelCall& call, const SdpaSplit& split);

}  // namespace weft::cuda
