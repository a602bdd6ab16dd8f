// How an einsum becomes matrix products on the CPU: what is packed, and how the product is split into blocks.
#pragma once
#include "weft/kernels/common/einsum_labels.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Nests with one operand walk one group of labels in one tensor. An operand is direct, which means that BLAS reads it
// in place, if each of its groups walks as one loop and one of them is contiguous. Other operands, and those of 16 bits
// without `bf16`, are packed block by block.
struct EinsumPlan : EinsumLabels {
  explicit EinsumPlan(const KernelCall& call);

  Nest m_of_a, k_of_a, k_of_b, n_of_b, m_of_out, n_of_out;
  bool a_direct, b_direct, out_direct;
  int64_t block_m, block_n;  // independent of the number of threads, so that results are too
  bool bf16;                 // a, b and out are direct and multiplied as bf16
  bool tiny;                 // products that are too small for BLAS use a plain loop

  int64_t BlocksM() const { return CeilDiv(m, block_m); }
  int64_t BlocksN() const { return CeilDiv(n, block_n); }
  int64_t Tasks() const { return batch * BlocksM() * BlocksN(); }
  // Elements of the compute type in the packing buffers of one worker.
  int64_t PackA() const { return a_direct ? 0 : RoundUp(block_m * k, 16); }
  int64_t PackB() const { return b_direct ? 0 : RoundUp(block_n * k, 16); }
  int64_t PackOut() const { return out_direct ? 0 : RoundUp(block_m * block_n, 16); }
  int64_t SlotElements() const { return PackA() + PackB() + PackOut(); }

 private:
  void ChooseDirect(DType operands, DType result);
  void ChooseBlocks();
};

}  // namespace weft::cpu
