// How an einsum becomes matrix products on the CPU: what is packed, how the product is cut into blocks.
#pragma once
#include "weft/kernels/common/einsum_labels.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Nests with one operand walk a group within one tensor; an operand whose groups each walk as one loop, one of them
// contiguous, goes to BLAS as it lies ("direct"); others are packed block by block.
struct EinsumPlan : EinsumLabels {
  explicit EinsumPlan(const KernelCall& call);

  Nest m_of_a, k_of_a, k_of_b, n_of_b, m_of_out, n_of_out;
  bool a_direct, b_direct, out_direct;
  int64_t block_m, block_n;  // depend on the shape only, so that results do not depend on threads
  bool bf16;                 // all three direct, and multiplied as bf16
  bool tiny;                 // products too small for BLAS: the plain loop

  int64_t BlocksM() const { return CeilDiv(m, block_m); }
  int64_t BlocksN() const { return CeilDiv(n, block_n); }
  int64_t Tasks() const { return batch * BlocksM() * BlocksN(); }
  // Elements of compute type that one worker packs into.
  int64_t PackA() const { return a_direct ? 0 : RoundUp(block_m * k, 16); }
  int64_t PackB() const { return b_direct ? 0 : RoundUp(block_n * k, 16); }
  int64_t PackOut() const { return out_direct ? 0 : RoundUp(block_m * block_n, 16); }
  int64_t SlotElements() const { return PackA() + PackB() + PackOut(); }

 private:
  void ChooseDirect(DType operands, DType result);
  void ChooseBlocks();
};

}  // namespace weft::cpu
