#include "weft/kernels/common/nest.h"

namespace weft {

Nest Nest::Over(std::span<const TensorView* const> views) {
  Nest nest(int(views.size()));
  const TensorView& first = *views[0];
  for (int d = 0; d < first.rank; d++) {
    Offsets stride{};
    for (size_t o = 0; o < views.size(); o++) stride[o] = views[o]->dim(d).stride;
    nest.Add(first.dim(d).extent, stride);
  }
  nest.Collapse();
  return nest;
}

void Nest::Add(int64_t extent, const Offsets& stride_of) {
  extents[size_t(rank)] = extent;
  strides[size_t(rank)] = stride_of;
  rank++;
}

void Nest::Collapse() {
  int kept = 0;
  for (int d = 0; d < rank; d++) {
    size_t from = size_t(d), to = size_t(kept);
    if (extents[from] == 1) continue;
    bool joins = kept > 0;
    for (int o = 0; o < operands && joins; o++)
      joins = strides[to - 1][size_t(o)] == strides[from][size_t(o)] * extents[from];
    if (joins) {
      extents[to - 1] *= extents[from];
      strides[to - 1] = strides[from];
    } else {
      extents[to] = extents[from];
      strides[to] = strides[from];
      kept++;
    }
  }
  rank = kept;
}

int64_t Nest::Count() const {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= extents[size_t(d)];
  return n;
}

Offsets Nest::At(int64_t step) const {
  Offsets at{};
  for (int d = rank - 1; d >= 0; d--) {
    int64_t i = step % extents[size_t(d)];
    step /= extents[size_t(d)];
    for (int o = 0; o < operands; o++) at[size_t(o)] += i * strides[size_t(d)][size_t(o)];
  }
  return at;
}

Nest Nest::Only(int operand) const {
  Nest nest(1);
  for (int d = 0; d < rank; d++) nest.Add(extents[size_t(d)], {strides[size_t(d)][size_t(operand)]});
  nest.Collapse();
  return nest;
}

}  // namespace weft
