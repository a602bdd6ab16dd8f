// The own kernels of einsum: dense copies of strided tensors, and products that the library does not take.
#pragma once
#include <cuda_runtime_api.h>

#include "weft/kernels/common/einsum_labels.h"

namespace weft::cuda {

// Copies elements of `element` bytes (2, 4 or 8) over a nest of (to, from).
void CopyNest(const KernelCall& call, const Nest& loops, size_t element, void* to, const void* from);

// The einsum, of any strides, accumulated in the compute type, of which the result may be too. Few long sums are split
// over blocks if `workspace_bytes` have room for the parts.
void GenericEinsum(const KernelCall& call, const EinsumLabels& labels, void* workspace, size_t workspace_bytes);

}  // namespace weft::cuda
