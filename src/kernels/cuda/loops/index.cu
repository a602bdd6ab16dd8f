#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {

FastDivide::FastDivide(uint32_t divisor) {
  if (divisor == 0) return;  // the loop is empty and takes no step
  while ((uint64_t(1) << shift_) < divisor) shift_++;
  magic_ = uint32_t((((uint64_t(1) << shift_) - divisor) << 32) / divisor + 1);
}

Walk::Walk(const Nest& nest, const Offsets& start) : rank(nest.rank), steps(uint32_t(nest.Count())) {
  for (int o = 0; o < kWalked; o++) first[o] = start[size_t(o)];
  for (int d = 0; d < rank; d++) {
    loops[d].extent = uint32_t(nest.extents[size_t(d)]);
    loops[d].divide = FastDivide(loops[d].extent);
    for (int o = 0; o < nest.operands; o++) loops[d].strides[o] = nest.strides[size_t(d)][size_t(o)];
  }
}

void ForEachWalk(const Nest& nest, const Offsets& first, absl::FunctionRef<void(const Walk&)> fn) {
  int64_t count = nest.Count();
  if (count == 0) return;
  if (count <= INT32_MAX) return fn(Walk(nest, first));
  // Halves the outermost loop. It has at least two steps, because the nest is collapsed.
  Nest low = nest, high = nest;
  low.extents[0] = nest.extents[0] / 2;
  high.extents[0] -= low.extents[0];
  Offsets middle = first;
  for (size_t o = 0; o < size_t(nest.operands); o++) middle[o] += low.extents[0] * nest.strides[0][o];
  low.Collapse();
  high.Collapse();
  ForEachWalk(low, first, fn);
  ForEachWalk(high, middle, fn);
}

}  // namespace weft::cuda
