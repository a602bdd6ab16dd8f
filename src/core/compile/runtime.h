// Runtime: what a rank needs to run local ops, and the pieces that all three executors share.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "weft/core/base/tensor.h"
#include "weft/core/ir/graph.h"
#include "weft/core/runtime/context.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct Runtime {
  const Context* context = nullptr;
  CollectiveContext* mesh = nullptr;  // groups for collectives; null where the program has none
  MeshShape mesh_shape;
  Coords coords;  // of this rank
  DeviceKind device = DeviceKind::kCpu;

  const KernelTable& kernels() const { return context->kernels(device); }
  DeviceRuntime& memory() const { return context->device(device); }
  TensorView View(const ValueInfo& info, void* data) const {
    return MakeView(data, info.dtype, info.global, info.sharding, mesh_shape, coords);
  }
};

// The call of a node's kernel, without workspace. The node outlives it.
KernelCall CallOf(const Node& node, std::span<const TensorView> in, std::span<const TensorView> out,
                  const Runtime& runtime);

// The local storage of a leaf: a State entry or an input slot. Its shape is the chunk's.
using Binder = std::function<Tensor(const std::string& name, const ValueInfo& info)>;

// Ops whose result is its operand's storage under another shape.
bool IsAlias(const Node& local);
// The placeholder of a shape operand: dims and placement, no bytes.
bool IsShapeOnly(const Node& local);
size_t BytesOf(const ValueInfo& info);  // of the storage (capacities)
// Throws Error when a bound tensor does not have the leaf's dtype and chunk shape.
void CheckBound(const Node& leaf, const Tensor& tensor);
// The values of a view within its extents; low > high where it holds none.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  bool has_nan = false;
};
ValueRange RangeOf(const TensorView& view);
// Throws Error naming the op, its scope and line when a floating output holds a NaN within the extents. Infinities
// pass: a log-sum-exp of nothing and the maximum of an empty shard are -inf.
void TrapNan(const Node& local, const TensorView& view);

}  // namespace weft
