#include "core/compile/runtime.h"

#include <fmt/format.h>

#include <cmath>

#include "core/ops/record.h"

namespace weft {

bool IsAlias(const Node& local) {
  return local.op == Op::kStopGradient || local.op == Op::kSplit || local.op == Op::kMerge;
}
bool IsShapeOnly(const Node& local) { return local.op == Op::kFull && local.attrs.IntOr("shape_only", 0); }

size_t BytesOf(const ValueInfo& info) { return size_t(NumElements(info.shape)) * SizeOf(info.dtype); }

void CheckBound(const Node& leaf, const Tensor& tensor) {
  const ValueInfo& info = leaf.outputs[0];
  WEFT_CHECK(tensor.defined() && tensor.dtype() == info.dtype && tensor.shape() == info.shape,
             fmt::format("leaf \"{}\": expected {} {} on this rank, got {}", leaf.attrs.Text("name"), Name(info.dtype), ToString(info.shape),
                         tensor.defined() ? fmt::format("{} {}", Name(tensor.dtype()), ToString(tensor.shape())) : "nothing"));
}

namespace {
template <class T>
bool AllFinite(const TensorView& v, int dim, const T* data) {
  if (dim == v.rank) return std::isfinite(double(Compute<T>(*data)));
  for (int64_t i = 0; i < v.dim(dim).extent; i++)
    if (!AllFinite(v, dim + 1, data + i * v.dim(dim).stride)) return false;
  return true;
}
}  // namespace

void TrapNonFinite(const Node& local, const TensorView& view) {
  if (!IsFloating(view.dtype) || view.data == nullptr) return;
  bool finite = DispatchFloating(view.dtype, [&](auto zero) { return AllFinite(view, 0, view.as<decltype(zero)>()); });
  if (!finite) FailAt(local, fmt::format("gave a NaN or an infinity, {} {}", Name(view.dtype), ToString(local.outputs[0].global)));
}

}  // namespace weft
