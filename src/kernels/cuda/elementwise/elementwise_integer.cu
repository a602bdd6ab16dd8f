// Elementwise ops on integers and bool, computing in i64.
#include "weft/kernels/cuda/elementwise/elementwise.cuh"

namespace weft::cuda {

#define WEFT_KERNEL(Name, ...) template void RunElementwise<Op::k##Name, int64_t>(const KernelCall&);
WEFT_UNARY_OPS(WEFT_KERNEL)
WEFT_SCALAR_OPS(WEFT_KERNEL)
WEFT_BINARY_OPS(WEFT_KERNEL)
WEFT_COMPARE_OPS(WEFT_KERNEL)
WEFT_LOGIC_OPS(WEFT_KERNEL)
#undef WEFT_KERNEL

#define WEFT_KERNEL(Name, ...) template void RunElementwise<Op::k##Name, int32_t>(const KernelCall&);
WEFT_UNARY_OPS(WEFT_KERNEL)
WEFT_SCALAR_OPS(WEFT_KERNEL)
WEFT_BINARY_OPS(WEFT_KERNEL)
WEFT_COMPARE_OPS(WEFT_KERNEL)
WEFT_LOGIC_OPS(WEFT_KERNEL)
#undef WEFT_KERNEL

#define WEFT_KERNEL(Name, ...) template void RunElementwise<Op::k##Name, uint8_t>(const KernelCall&);
WEFT_UNARY_OPS(WEFT_KERNEL)
WEFT_SCALAR_OPS(WEFT_KERNEL)
WEFT_BINARY_OPS(WEFT_KERNEL)
WEFT_COMPARE_OPS(WEFT_KERNEL)
WEFT_LOGIC_OPS(WEFT_KERNEL)
#undef WEFT_KERNEL

#define WEFT_KERNEL(Name, ...) template void RunElementwise<Op::k##Name, bool>(const KernelCall&);
WEFT_UNARY_OPS(WEFT_KERNEL)
WEFT_SCALAR_OPS(WEFT_KERNEL)
WEFT_BINARY_OPS(WEFT_KERNEL)
WEFT_COMPARE_OPS(WEFT_KERNEL)
WEFT_LOGIC_OPS(WEFT_KERNEL)
#undef WEFT_KERNEL

}  // namespace weft::cuda
