// Registers the unary, scalar, binary, comparison and logic ops. The kernels are in elementwise_<type>.cu. They are
// made from elementwise.cuh, in which an op is the value expression of its row in core/ir/elementwise_rows.h.
#include "weft/kernels/cuda/elementwise/elementwise.h"

#include <fmt/format.h>

#include "weft/core/base/error.h"
#include "weft/kernels/cuda/families.h"

namespace weft::cuda {
namespace {

template <Op op>
void Run(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { RunElementwise<op, decltype(zero)>(call); });
}

}  // namespace

void RefuseType(Op op, DType dtype, const char* expected) {
  Fail(fmt::format("{} on CUDA: no kernel for dtype {}; cast the operand to {}", Name(op), Name(dtype), expected));
}

void AddElementwise(KernelTable& table) {
#define WEFT_ROW(Name, ...) SetRun(table, Op::k##Name, &Run<Op::k##Name>);
  WEFT_UNARY_OPS(WEFT_ROW)
  WEFT_SCALAR_OPS(WEFT_ROW)
  WEFT_BINARY_OPS(WEFT_ROW)
  WEFT_COMPARE_OPS(WEFT_ROW)
  WEFT_LOGIC_OPS(WEFT_ROW)
#undef WEFT_ROW
}

}  // namespace weft::cuda
