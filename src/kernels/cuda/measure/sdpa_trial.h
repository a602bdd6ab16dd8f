// Times attention backends on operands of their own. Host code without CUDA: the device records, replays and marks.
#pragma once
#include <span>
#include <vector>

#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {

// Returns the microseconds that each backend takes for the call on the context's GPU, as a recorded step runs it. Only
// shapes, dtypes and attributes of the call count. The operands are made here: values spread over [-1, 1), masks that
// hide nothing, one segment, and queries that stand at the last keys. Takes some dozen runs of the call per backend; a
// backend that is slower than another by more than twice has only two. Returns nothing, and times nothing, if the GPU
// has not enough free memory.
std::vector<double> TimeSdpa(std::span<const SdpaKernels* const> backends, const KernelCall& call);

}  // namespace weft::cuda
