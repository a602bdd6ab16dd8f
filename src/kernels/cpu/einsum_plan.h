// How an einsum becomes matrix products: labels in groups, what is packed, how the product is cut into blocks.
#pragma once
#include "kernels/cpu/strided.h"

namespace weft::cpu {

// Groups of labels: batch (in both operands and the output), m (a and output), n (b and output), k (a and b).
// Nests with one operand walk a group within one tensor; an operand whose groups each walk as one loop, one of them
// contiguous, goes to BLAS as it lies ("direct"); others are packed block by block.
struct EinsumPlan {
  explicit EinsumPlan(const KernelCall& call);

  bool swapped = false;  // a is input 1: so that n, not m, is innermost in the output
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Nest batches{3};  // operands: out, a, b
  Nest m_of_a{1}, k_of_a{1}, k_of_b{1}, n_of_b{1}, m_of_out{1}, n_of_out{1};
  Nest outputs{3}, terms{2};  // every output (out, a, b) and every term of one (a, b), for the plain loop
  bool a_direct, b_direct, out_direct;
  int64_t block_m, block_n;  // depend on the shape only, so that results do not depend on threads
  bool bf16;                 // all three direct, and multiplied as bf16
  bool tiny;                 // products too small for BLAS: the plain loop

  int64_t BlocksM() const { return CeilDiv(m, block_m); }
  int64_t BlocksN() const { return CeilDiv(n, block_n); }
  int64_t Tasks() const { return batch * BlocksM() * BlocksN(); }
  bool empty() const { return batch * m * n == 0; }
  // Elements of compute type that one worker packs into.
  int64_t PackA() const { return a_direct ? 0 : RoundUp(block_m * k, 16); }
  int64_t PackB() const { return b_direct ? 0 : RoundUp(block_n * k, 16); }
  int64_t PackOut() const { return out_direct ? 0 : RoundUp(block_m * block_n, 16); }
  int64_t SlotElements() const { return PackA() + PackB() + PackOut(); }

 private:
  void AddTerm(int64_t extent, int64_t a, int64_t b);
  void AddOutput(int64_t extent, const Offsets& stride, bool in_a, bool in_b);
  void ChooseDirect(DType dtype);
  void ChooseBlocks();
};

}  // namespace weft::cpu
