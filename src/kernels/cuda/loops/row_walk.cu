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

std::optional<PackRows> PackRowsOf(const TensorView& x, int64_t v) {
  const TensorView* views[] = {&x};
  Nest nest = Nest::Over(views);
  if (nest.rank > 2 || nest.inner_stride(0) != 1 || nest.Count() % v != 0 || !Aligned16(x.data)) return std::nullopt;
  PackRows rows;
  if (nest.rank < 2) return rows;
  int64_t extent = nest.inner_extent(), apart = nest.strides[0][0];
  if (extent % v != 0 || apart % v != 0 || nest.Count() / v > INT32_MAX) return std::nullopt;
  rows.row = FastDivide(uint32_t(extent / v));
  rows.gap = (apart - extent) / v;
  return rows;
}

}  // namespace weft::cuda
