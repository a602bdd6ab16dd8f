// Collectives on tensors. The mesh axis and the device of the tensor select the group, so callers name no backend.
//
//   Tensor sum = collectives::AllReduce(x, mesh, "dp");
//
// This file also declares the rows of the kernel table through which programs reach the same groups
// (core/ops/collective.cc has their contract).
#pragma once
#include <string_view>

#include "weft/core/base/tensor.h"
#include "weft/core/runtime/kernel.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// Adds all_reduce, all_gather, reduce_scatter, all_to_all, local_slice and mask_partial: rows that forward to the group
// of (axis, kind) of the call's mesh. Attributes are integers: axis (its index in the mesh), dim, gather_dim,
// split_dim, reduce (a ReduceOp). Records and errors have the call's module and line. The group counts the bytes that a
// row passes to it, which are those of the input's storage. For reduce_scatter and all_to_all the split dim is rounded
// up to whole chunks.
void RegisterCollectives(KernelTable& table, DeviceKind kind);

namespace collectives {

// Each function is collective over the axis and returns a new tensor. Requires equal shapes on all ranks of the axis.
// They throw Error as ProcessGroup does.
Tensor AllReduce(const Tensor& x, DeviceMesh& mesh, std::string_view axis, ReduceOp op = ReduceOp::kSum,
                 Loc loc = Loc::current());
// Concatenates along dim. The result is cut to `extent` if given, because the ranks' chunks of an uneven dim extend
// past its end.
Tensor AllGather(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int dim, int64_t extent = -1,
                 Loc loc = Loc::current());
// Reduces, then rank c keeps chunk c of dim. Every rank's result has size ceil(extent / ranks) in dim, padded with
// zeros at the end.
Tensor ReduceScatter(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int dim, ReduceOp op = ReduceOp::kSum,
                     Loc loc = Loc::current());
// Converts from chunks of gather_dim to chunks of split_dim. gather_dim is cut to `extent` if given.
Tensor AllToAll(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int gather_dim, int split_dim,
                int64_t extent = -1, Loc loc = Loc::current());
// Returns the tensor of the coordinate `by` places before this one in the ring of the axis (after it if negative).
Tensor Shift(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int by = 1, Loc loc = Loc::current());
// Returns the tensor of coordinate `root`.
Tensor Broadcast(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int root, Loc loc = Loc::current());

}  // namespace collectives
}  // namespace weft
