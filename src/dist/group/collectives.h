// Collectives on tensors: the group is picked by mesh axis and by the device of the tensor, so no backend is ever
// named.
//
//   Tensor sum = collectives::AllReduce(x, mesh, "dp");
//
// And the rows of the kernel table through which programs reach the same groups (core/ops/collective.cc has their
// contract).
#pragma once
#include <string_view>

#include "weft/core/base/tensor.h"
#include "weft/core/runtime/kernel.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// Adds all_reduce, all_gather, reduce_scatter, all_to_all, local_slice and mask_partial: rows that forward to the group
// of (axis, kind) of the call's mesh. Attributes are integers: axis (its number in the mesh), dim, gather_dim,
// split_dim, reduce (a ReduceOp). Records and errors have the call's module and line. The group counts the bytes that a
// row hands to it: those of the input's storage, in reduce_scatter and all_to_all with the split dim rounded up to
// whole chunks.
void RegisterCollectives(KernelTable& table, DeviceKind kind);

namespace collectives {

// Each returns a new tensor; the shapes must be equal on all ranks of the axis. They throw Error as ProcessGroup does.
Tensor AllReduce(const Tensor& x, DeviceMesh& mesh, std::string_view axis, ReduceOp op = ReduceOp::kSum,
                 Loc loc = Loc::current());
// Concatenates along dim; cut to `extent` where it is given (the ranks' chunks of an uneven dim reach past its end).
Tensor AllGather(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int dim, int64_t extent = -1,
                 Loc loc = Loc::current());
// Reduces, then rank c keeps chunk c of dim; every rank's result has ceil(extent / ranks) there, padded with zeros at
// the end.
Tensor ReduceScatter(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int dim, ReduceOp op = ReduceOp::kSum,
                     Loc loc = Loc::current());
// From chunks of gather_dim to chunks of split_dim; gather_dim is cut to `extent` where it is given.
Tensor AllToAll(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int gather_dim, int split_dim,
                int64_t extent = -1, Loc loc = Loc::current());
// The tensor of the coordinate `by` places before this one in the ring of the axis (negative: after it).
Tensor Shift(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int by = 1, Loc loc = Loc::current());
// The tensor of coordinate `root`.
Tensor Broadcast(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int root, Loc loc = Loc::current());

}  // namespace collectives
}  // namespace weft
