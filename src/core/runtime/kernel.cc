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

int64_t TensorView::SpanElements() const {
  int64_t last = 0;
  for (int i = 0; i < rank; i++) {
    if (dim(i).capacity == 0) return 0;
    last += (dim(i).capacity - 1) * dim(i).stride;
  }
  return last + 1;
}

TensorView MakeView(void* data, DType dtype, const Shape& global, const Sharding& sharding, const MeshShape& mesh,
                    const Coords& coords) {
  TensorView view{data, dtype, int(global.size())};
  std::array<DimShard, kMaxRank> shards;
  for (size_t d = 0; d < global.size(); d++) shards[d] = {global[d], 0, global[d]};
  ForEachShard(sharding, [&](int axis, int d) {
    if (d < view.rank) shards[size_t(d)] = CutShard(shards[size_t(d)], mesh.sizes[size_t(axis)], coords[size_t(axis)]);
  });
  int64_t stride = 1;
  for (size_t d = global.size(); d-- > 0;) {
    view.dims[d] = {shards[d].extent, stride, shards[d].offset, global[d], shards[d].capacity};
    stride *= shards[d].capacity;
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
