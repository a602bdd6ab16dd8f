// One elementwise op on one storage type. Instantiated in the file of the type, so that each compiles on its own.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// T is the dtype of the operands; comparisons and logic write bool, all others T.
template <Op op, class T>
void RunElementwise(const KernelCall& call);

// Throws Error: cast the operand to `expected`.
[[noreturn]] void RefuseType(Op op, DType dtype, const char* expected);

}  // namespace weft::cuda
