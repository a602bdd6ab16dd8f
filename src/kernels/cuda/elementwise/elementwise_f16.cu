// Elementwise ops on f16, computing in f32.
#include "weft/kernels/cuda/elementwise/elementwise.cuh"

namespace weft::cuda {

#define WEFT_KERNEL(Name, ...) template void RunElementwise<Op::k##Name, F16>(const KernelCall&);
WEFT_UNARY_OPS(WEFT_KERNEL)
WEFT_SCALAR_OPS(WEFT_KERNEL)
WEFT_BINARY_OPS(WEFT_KERNEL)
WEFT_COMPARE_OPS(WEFT_KERNEL)
WEFT_LOGIC_OPS(WEFT_KERNEL)
#undef WEFT_KERNEL

}  // namespace weft::cuda
