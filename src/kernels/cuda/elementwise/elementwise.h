// One elementwise op on one storage type. It is instantiated in the file of that type, so that the types compile
// separately.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// T is the dtype of the operands. Comparisons and logic ops write bool, all others T.
template <Op op, class T>
void RunElementwise(const KernelCall& call);

// Throws Error that asks to cast the operand to `expected`.
[[noreturn]] void RefuseType(Op op, DType dtype, const char* expected);

}  // namespace weft::cuda
