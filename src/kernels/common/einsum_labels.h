// EinsumLabels: an einsum's labels in the groups of a matrix product, for every device.
#pragma once
#include "weft/kernels/common/nest.h"

namespace weft {

// Groups of labels: batch (in both operands and the output), m (a and output), n (b and output), k (a and b).
struct EinsumLabels {
  explicit EinsumLabels(const KernelCall& call);

  bool swapped = false;  // a is input 1: so that n, not m, is innermost in the output
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Nest batches{3};           // operands: out, a, b
  Nest rows{2}, columns{2};  // m of (out, a) and n of (out, b)
  Nest terms{2};             // k of (a, b)
  Nest outputs{3};           // every output: batch, m and n of (out, a, b), in the order of the output

  bool empty() const { return batch * m * n == 0; }
  const TensorView& A(const KernelCall& call) const { return call.in[swapped ? 1 : 0]; }
  const TensorView& B(const KernelCall& call) const { return call.in[swapped ? 0 : 1]; }

 private:
  void AddOutput(int64_t extent, const Offsets& stride, bool in_a, bool in_b);
};

}  // namespace weft
