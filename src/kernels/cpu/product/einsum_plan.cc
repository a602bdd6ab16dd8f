#include "weft/kernels/cpu/product/einsum_plan.h"

#include "weft/kernels/cpu/product/gemm_bf16.h"

namespace weft::cpu {
namespace {

// Returns whether each nest is at most one loop and one of them is contiguous.
bool IsDirect(const Nest& x, const Nest& y) {
  return x.rank <= 1 && y.rank <= 1 && (x.rank == 0 || y.rank == 0 || x.strides[0][0] == 1 || y.strides[0][0] == 1);
}

// Returns the size of equal blocks of at most 256. Their number is even, as the number of threads is in most cases: two
// threads would take as long for three blocks as for four.
int64_t EvenBlocks(int64_t extent) { return RoundUp(CeilDiv(extent, RoundUp(CeilDiv(extent, 256), 2)), 16); }

}  // namespace

EinsumPlan::EinsumPlan(const KernelCall& call)
    : EinsumLabels(call),
      m_of_a(rows.Only(1)),
      k_of_a(terms.Only(0)),
      k_of_b(terms.Only(1)),
      n_of_b(columns.Only(1)),
      m_of_out(rows.Only(0)),
      n_of_out(columns.Only(0)) {
  ChooseDirect(call.in[0].dtype, call.out[0].dtype);
  ChooseBlocks();
}

void EinsumPlan::ChooseDirect(DType operands, DType result) {
  a_direct = IsDirect(m_of_a, k_of_a);
  b_direct = IsDirect(k_of_b, n_of_b);
  out_direct = m_of_out.rank <= 1 && n_of_out.rank <= 1 && (n_of_out.rank == 0 || n_of_out.strides[0][0] == 1);
  // Below 32^3 multiplications a oneDNN call costs more than widening does.
  bf16 = operands == DType::kBF16 && a_direct && b_direct && out_direct && m * n * k >= 32768 && HasBf16Gemm();
  // Other 16-bit operands are widened while they are packed.
  if (SizeOf(operands) == 2 && !bf16) {
    a_direct = b_direct = false;
    out_direct = out_direct && result != operands;
  }
}

void EinsumPlan::ChooseBlocks() {
  tiny = batch > 1 && m * n * k < 512;
  block_m = std::max<int64_t>(m, 1);
  block_n = std::max<int64_t>(n, 1);
  if (a_direct && b_direct && out_direct) {
    if (batch >= 16) return;
    if (m == 1 && n * k >= 65536)  // it takes as long as reading b, so all threads must read
      block_n = std::min<int64_t>(RoundUp(CeilDiv(n, 8), 16), 512);
    else if (m >= 512)
      block_m = EvenBlocks(m);
    else if (n >= 512)
      block_n = EvenBlocks(n);
  } else {
    block_m = std::min<int64_t>(block_m, 256);
    block_n = std::min<int64_t>(block_n, 512);
  }
}

}  // namespace weft::cpu
