#include "weft/dist/group/collectives.h"

#include "weft/core/host/rounding.h"
#include "weft/core/runtime/context.h"
#include "weft/core/runtime/run_with_workspace.h"

namespace weft::collectives {
namespace {

Tensor NewLike(const Tensor& x, ProcessGroup& group, Shape shape) {
  BufferPtr buffer = group.Allocate(size_t(NumElements(shape)) * SizeOf(x.dtype()));
  return Tensor(std::move(buffer), 0, x.dtype(), std::move(shape));
}

const KernelTable& RowsOf(DeviceKind kind) {
  auto rows = [](DeviceKind of) {
    KernelTable table;
    RegisterCollectives(table, of);
    return table;
  };
  static const KernelTable cpu = rows(DeviceKind::kCpu), cuda = rows(DeviceKind::kCuda);
  return kind == DeviceKind::kCpu ? cpu : cuda;
}

// Runs the row of `op`, which knows the layout of chunks, on whole tensors.
Tensor RunRow(Op op, const Tensor& x, Shape out_shape, DeviceMesh& mesh, int axis, Attrs attrs, const Loc& loc) {
  DeviceKind kind = x.device().kind;
  ProcessGroup& group = mesh.Group(axis, kind);
  Tensor y = NewLike(x, group, std::move(out_shape));
  attrs.Set({"axis", axis});
  TensorView in = MakeView(x.data(), x.dtype(), x.shape()), out = MakeView(y.data(), y.dtype(), y.shape());
  KernelCall call{.attrs = &attrs,
                  .in = {&in, 1},
                  .out = {&out, 1},
                  .workspace = nullptr,
                  .workspace_bytes = 0,
                  .context = nullptr,
                  .mesh = &mesh,
                  .loc = loc};
  RunWithWorkspace(RowsOf(kind).Row(op), call, [&](size_t bytes) { return group.Allocate(bytes); });
  return y;
}

}  // namespace

Tensor AllReduce(const Tensor& x, DeviceMesh& mesh, std::string_view axis, ReduceOp op, Loc loc) {
  return RunRow(Op::kAllReduce, x, x.shape(), mesh, mesh.Axis(axis, loc), {{"reduce", int(op)}}, loc);
}

Tensor AllGather(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int dim, int64_t extent, Loc loc) {
  int a = mesh.Axis(axis, loc), d = NormalizeDim(dim, int64_t(x.shape().size()), "AllGather");
  Shape shape = x.shape();
  shape[size_t(d)] = extent >= 0 ? extent : shape[size_t(d)] * mesh.shape().sizes[size_t(a)];
  return RunRow(Op::kAllGather, x, shape, mesh, a, {{"dim", d}}, loc);
}

Tensor ReduceScatter(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int dim, ReduceOp op, Loc loc) {
  int a = mesh.Axis(axis, loc), d = NormalizeDim(dim, int64_t(x.shape().size()), "ReduceScatter");
  Shape shape = x.shape();
  shape[size_t(d)] = CeilDiv(shape[size_t(d)], mesh.shape().sizes[size_t(a)]);
  return RunRow(Op::kReduceScatter, x, shape, mesh, a, {{"dim", d}, {"reduce", int(op)}}, loc);
}

Tensor AllToAll(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int gather_dim, int split_dim, int64_t extent,
                Loc loc) {
  int a = mesh.Axis(axis, loc), k = mesh.shape().sizes[size_t(a)];
  int g = NormalizeDim(gather_dim, int64_t(x.shape().size()), "AllToAll");
  int s = NormalizeDim(split_dim, int64_t(x.shape().size()), "AllToAll");
  WEFT_CHECK(g != s, "AllToAll: gather_dim and split_dim are the same");
  Shape shape = x.shape();
  shape[size_t(g)] = extent >= 0 ? extent : shape[size_t(g)] * k;
  shape[size_t(s)] = CeilDiv(shape[size_t(s)], k);
  return RunRow(Op::kAllToAll, x, shape, mesh, a, {{"gather_dim", g}, {"split_dim", s}}, loc);
}

Tensor Shift(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int by, Loc loc) {
  ProcessGroup& group = mesh.Group(axis, x.device().kind);
  Tensor y = NewLike(x, group, x.shape());
  group.Shift(x.data(), y.data(), x.num_elements(), x.dtype(), by, loc);
  return y;
}

Tensor Broadcast(const Tensor& x, DeviceMesh& mesh, std::string_view axis, int root, Loc loc) {
  ProcessGroup& group = mesh.Group(axis, x.device().kind);
  Tensor y = NewLike(x, group, x.shape());
  group.CopyRows(y.data(), int64_t(x.bytes()), x.data(), int64_t(x.bytes()), int64_t(x.bytes()), 1);
  group.Broadcast(y.data(), y.num_elements(), y.dtype(), root, loc);
  return y;
}

}  // namespace weft::collectives
