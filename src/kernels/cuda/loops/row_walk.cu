#include "weft/kernels/cuda/loops/row_walk.cuh"

#include "weft/kernels/cuda/loops/convert.cuh"

namespace weft::cuda {

Walk WalkRows(int dims, std::initializer_list<const TensorView*> views) {
  const TensorView& first = **views.begin();
  Nest nest(int(views.size()));
  for (int d = 0; d < dims; d++) {
    Offsets stride{};
    size_t o = 0;
    for (const TensorView* view : views) stride[o++] = view ? view->dim(d).stride : 0;
    nest.Add(first.dim(d).extent, stride);
  }
  nest.Collapse();
  WEFT_CHECK(nest.Count() <= INT32_MAX, "CUDA: expected fewer than 2^31 rows on a rank; split the batch");
  return Walk(nest, {});
}

bool RowsAligned(const TensorView& x, int64_t v) {
  const DimView& row = x.dim(x.rank - 1);
  if (!Aligned16(x.data) || row.extent % v != 0 || (row.extent > 1 && row.stride != 1)) return false;
  for (int d = 0; d + 1 < x.rank; d++)
    if (x.dim(d).extent > 1 && x.dim(d).stride % v != 0) return false;
  return true;
}

}  // namespace weft::cuda
