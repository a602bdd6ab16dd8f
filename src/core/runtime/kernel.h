// Kernels: what a device must provide for an op, and the table that finds it by op. A Context has one table per device
// kind.
//
// A kernel gets views of the elements that this rank holds. In each dim:
// - `capacity` is the chunk size, to which storage is padded. It is the same on all ranks.
// - `extent` is the number of elements that this rank holds, possibly 0.
// A kernel reads and writes only the box of extents. Padding is undefined, and only collectives move it. With even
// shards extent == capacity and a tensor is dense. Inputs may have stride 0 (a broadcast) if the row sets
// `any_strides`. Outputs are row-major over capacity. If the row sets `slices`, inputs and outputs may also be slices
// of such tensors: rows of the innermost dims are dense, and begin at multiples of kSliceAlign bytes.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "weft/core/base/attrs.h"
#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/shard.h"
#include "weft/core/ir/op.h"
#include "weft/core/runtime/collective_context.h"
#include "weft/core/runtime/context.h"

namespace weft {

struct DimView {
  int64_t extent = 0;    // elements of this dim on this rank
  int64_t stride = 0;    // in elements
  int64_t offset = 0;    // global index of element 0
  int64_t global = 0;    // global extent
  int64_t capacity = 0;  // chunk size; the storage is row-major over capacities
};

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<DimView, kMaxRank> dims{};

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  const DimView& dim(int i) const { return dims[size_t(i)]; }
  int64_t NumElements() const;  // product of extents
  int64_t CapacityElements() const;
  // Returns the elements of the storage from the first to the last: more than the capacity in a slice.
  int64_t SpanElements() const;
};

inline constexpr int64_t kSliceAlign = 16;  // bytes at whose multiples the rows of a slice begin

// Returns the view of a rank's storage of a global tensor.
TensorView MakeView(void* data, DType dtype, const Shape& global, const Sharding& sharding, const MeshShape& mesh,
                    const Coords& coords);
// Returns the view of a whole tensor on one rank.
TensorView MakeView(void* data, DType dtype, const Shape& shape);

struct KernelCall {
  const Attrs* attrs;
  std::span<const TensorView> in;  // in[i].data is null for a shape operand
  std::span<const TensorView> out;
  void* workspace;  // workspace_bytes bytes, aligned to 64
  size_t workspace_bytes;
  const Context* context;
  CollectiveContext* mesh;      // null if there is none
  std::string_view scope = {};  // the module path of the op, "blocks.3.mlp.down"
  Loc loc = {};                 // the user's line
};

struct KernelRow {
  void (*run)(const KernelCall&) = nullptr;
  // Returns the bytes of scratch memory that a call needs; null: none. The call has the context and the views of the
  // run, but the views have no data.
  size_t (*workspace)(const KernelCall&) = nullptr;
  // Runs several calls with fewer launches than one per call; null: they run one by one. No call may write what another
  // one reads or writes.
  void (*run_many)(std::span<const KernelCall>) = nullptr;
  // Says which of several backends a call takes, and why not those before it: "flash (cudnn: f32 is neither bf16 nor
  // f16)". The views may have no data. Null: there is one backend.
  std::string (*explain)(const KernelCall&) = nullptr;
  // Puts the times of the backends that may run a call into the context's BackendTimes: those of an earlier run, or by
  // running them on operands of its own. The views have no data. Null: no choice depends on times.
  void (*measure)(const KernelCall&) = nullptr;
  bool any_strides = false;  // accepts inputs with stride 0
  bool slices = false;       // accepts inputs and outputs that are slices of a tensor
  bool in_place = false;     // output i may share storage with input i, for i < in_place_outputs
  int in_place_outputs = 64;
};

class KernelTable {
 public:
  void Add(Op op, KernelRow row) { rows_[size_t(op)] = row; }
  bool Has(Op op) const { return rows_[size_t(op)].run != nullptr; }
  const KernelRow& Row(Op op) const;  // throws Error with the op's name if the device has no kernel for it

 private:
  std::array<KernelRow, size_t(kNumOps)> rows_{};
};

}  // namespace weft
