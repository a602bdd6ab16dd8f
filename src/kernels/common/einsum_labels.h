// EinsumLabels: the labels of an einsum, grouped as those of a matrix product. Used by every device.
#pragma once
#include "weft/kernels/common/nest.h"

namespace weft {

// Groups of labels: batch (in a, b and the output), m (in a and the output), n (in b and the output), k (in a and b).
struct EinsumLabels {
  explicit EinsumLabels(const KernelCall& call);

  bool swapped = false;  // a is input 1, which makes n instead of m innermost in the output
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Nest batches{3};           // operands: out, a, b
  Nest rows{2}, columns{2};  // operands: (out, a) for m and (out, b) for n
  Nest terms{2};             // operands: a, b; the loops of k
  Nest outputs{3};           // operands: out, a, b; the labels batch, m and n in the order of the output

  bool empty() const { return batch * m * n == 0; }
  const TensorView& A(const KernelCall& call) const { return call.in[swapped ? 1 : 0]; }
  const TensorView& B(const KernelCall& call) const { return call.in[swapped ? 0 : 1]; }

 private:
  void AddOutput(int64_t extent, const Offsets& stride, bool in_a, bool in_b);
};

}  // namespace weft
