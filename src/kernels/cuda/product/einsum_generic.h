// Einsum by Weft's own kernels: dense copies of strided tensors, and products that the library does not take.
#pragma once
#include <cuda_runtime_api.h>

#include "weft/kernels/common/einsum_labels.h"

namespace weft::cuda {

// Copies elements of `element` bytes (2, 4 or 8) over a nest of (to, from).
void CopyNest(const KernelCall& call, const Nest& loops, size_t element, void* to, const void* from);

// Computes the einsum for any strides. It accumulates in the compute type, which may also be that of the result. Few
// long sums are split over blocks if their parts fit in `workspace_bytes`.
void GenericEinsum(const KernelCall& call, const EinsumLabels& labels, void* workspace, size_t workspace_bytes);

}  // namespace weft::cuda
