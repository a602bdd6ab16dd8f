#include "weft/core/compile/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/core/ir/record.h"

namespace weft {

KernelCall CallOf(const Node& node, std::span<const TensorView> in, std::span<const TensorView> out,
                  const Runtime& runtime) {
  return {.attrs = &node.attrs,
          .in = in,
          .out = out,
          .workspace = nullptr,
          .workspace_bytes = 0,
          .context = runtime.context,
          .mesh = runtime.mesh,
          .scope = node.scope ? std::string_view(*node.scope) : std::string_view(),
          .loc = node.loc};
}

void CheckBound(const Node& leaf, const Tensor& tensor) {
  const ValueInfo& info = leaf.outputs[0];
  WEFT_CHECK(
      tensor.defined() && tensor.dtype() == info.dtype && tensor.shape() == info.shape,
      fmt::format("leaf \"{}\": expected {} {} on this rank, got {}", leaf.attrs.Text("name"), Name(info.dtype),
                  ToString(info.shape),
                  tensor.defined() ? fmt::format("{} {}", Name(tensor.dtype()), ToString(tensor.shape())) : "nothing"));
}

namespace {
// Calls fn(value) for every element within the extents.
template <class T, class Fn>
void ForEach(const TensorView& v, int dim, const T* data, Fn& fn) {
  if (dim == v.rank) return fn(double(Compute<T>(*data)));
  for (int64_t i = 0; i < v.dim(dim).extent; i++) ForEach(v, dim + 1, data + i * v.dim(dim).stride, fn);
}
}  // namespace

ValueRange RangeOf(const TensorView& view) {
  ValueRange range;
  auto take = [&](double x) {
    range.has_nan |= std::isnan(x);
    range.low = std::min(range.low, x);
    range.high = std::max(range.high, x);
  };
  if (view.data) Dispatch(view.dtype, [&](auto zero) { ForEach(view, 0, view.as<decltype(zero)>(), take); });
  return range;
}

void TrapNan(const Node& local, const TensorView& view) {
  if (!IsFloating(view.dtype) || !RangeOf(view).has_nan) return;
  FailAt(local, fmt::format("gave a NaN, {} {}", Name(view.dtype), ToString(local.outputs[0].global)));
}

}  // namespace weft
