#include "weft/core/runtime/kernel.h"

#include <fmt/format.h>

namespace weft {

int64_t TensorView::NumElements() const {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dim(i).extent;
  return n;
}

int64_t TensorView::CapacityElements() const {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dim(i).capacity;
  return n;
}

TensorView MakeView(void* data, DType dtype, const Shape& global, const Sharding& sharding, const MeshShape& mesh,
                    const Coords& coords) {
  TensorView view{data, dtype, int(global.size())};
  int64_t stride = 1;
  for (int d = view.rank - 1; d >= 0; d--) {
    DimShard shard = ShardOfDim(global[size_t(d)], sharding.DimAxes(d), mesh, coords);
    view.dims[size_t(d)] = {shard.extent, stride, shard.offset, global[size_t(d)], shard.capacity};
    stride *= shard.capacity;
  }
  return view;
}

TensorView MakeView(void* data, DType dtype, const Shape& shape) {
  return MakeView(data, dtype, shape, Sharding(0), MeshShape{}, Coords{});
}

const KernelRow& KernelTable::Row(Op op) const {
  WEFT_CHECK(Has(op), fmt::format("op {} has no kernel on this device and no fallback", Name(op)));
  return rows_[size_t(op)];
}

}  // namespace weft
