// Runtime: what a rank needs to run local ops, and helpers that the eager builder, the interpreter and executables
// share.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "weft/core/base/tensor.h"
#include "weft/core/compile/overlap/overlap_mode.h"
#include "weft/core/ir/graph.h"
#include "weft/core/ir/storage.h"
#include "weft/core/runtime/context.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

struct Runtime {
  const Context* context = nullptr;
  CollectiveContext* mesh = nullptr;  // groups for collectives; null if the program has none
  MeshShape mesh_shape;
  Coords coords;  // of this rank
  DeviceKind device = DeviceKind::kCpu;
  OverlapMode overlap = OverlapMode::kAuto;
  int chunks = 0;  // the number of chunks of OverlapMode::kChunks; 0: Chunk chooses it

  bool Overlaps() const {
    return overlap == OverlapMode::kAuto ? device != DeviceKind::kCpu : overlap != OverlapMode::kNever;
  }
  bool Interleaves() const {
    return overlap == OverlapMode::kFill || overlap == OverlapMode::kHalves || overlap == OverlapMode::kChunks;
  }
  const KernelTable& kernels() const { return context->kernels(device); }
  DeviceRuntime& memory() const { return context->device(device); }
  TensorView View(const ValueInfo& info, void* data) const {
    return MakeView(data, info.dtype, info.global, info.sharding, mesh_shape, coords);
  }
};

// Returns the call of a node's kernel, without workspace. The node must outlive it.
KernelCall CallOf(const Node& node, std::span<const TensorView> in, std::span<const TensorView> out,
                  const Runtime& runtime);

// Returns the local storage of a leaf, which is a State entry or an input slot. It has the chunk's shape.
using Binder = std::function<Tensor(const std::string& name, const ValueInfo& info)>;

// Throws Error if a bound tensor does not have the leaf's dtype and chunk shape.
void CheckBound(const Node& leaf, const Tensor& tensor);
// The range of a view's values within its extents. low > high if it holds no element.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  bool has_nan = false;
};
ValueRange RangeOf(const TensorView& view);
// Throws Error with the op, its scope and its line if a floating-point output holds a NaN within the extents.
// Infinities pass: the log-sum-exp of nothing and the maximum of an empty shard are -inf.
void TrapNan(const Node& local, const TensorView& view);

}  // namespace weft
