#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

Rows::Rows(const TensorView& view, int dims) : nest_(1) {
  for (int d = 0; d < dims; d++) nest_.Add(view.dim(d).extent, {view.dim(d).stride});
  count_ = nest_.Count();
  nest_.Collapse();
}

int Threads(const KernelCall& call) { return call.context ? call.context->threads() : 1; }

void ParallelFor(const KernelCall& call, int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn) {
  if (n <= 0) return;
  if (call.context)
    call.context->ParallelFor(n, grain, fn);
  else
    fn(0, n);
}

void ParallelSlots(const KernelCall& call, int64_t n, int64_t slots,
                   absl::FunctionRef<void(int64_t, int64_t, int64_t)> fn) {
  int64_t pieces = std::min(n, std::max<int64_t>(slots, 1));
  if (pieces <= 0) return;
  int64_t chunk = CeilDiv(n, pieces);
  ParallelFor(call, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; p++)
      if (p * chunk < n) fn(p, p * chunk, std::min(n, (p + 1) * chunk));
  });
}

}  // namespace weft::cpu
