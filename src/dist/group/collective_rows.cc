#include "weft/dist/group/collectives.h"

#include <fmt/format.h>

#include <deque>
#include <vector>

#include "weft/dist/group/chunk_layout.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

constexpr int64_t kAlign = 64;
int64_t Aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

int64_t StorageBytes(const TensorView& view) { return view.CapacityElements() * int64_t(SizeOf(view.dtype)); }

// Every CollectiveContext is a DeviceMesh.
template <DeviceKind kind>
ProcessGroup& GroupOf(const KernelCall& call) {
  WEFT_CHECK(call.mesh, "a collective was run without a mesh");
  return static_cast<DeviceMesh&>(*call.mesh).Group(int(call.attrs->Int("axis")), kind);
}

ReduceOp ReduceOf(const KernelCall& call) { return ReduceOp(call.attrs->IntOr("reduce", int64_t(ReduceOp::kSum))); }

// The collective of a row, but for op, memory and count, with the module and line that it stands for.
struct RowCollective : Collective {
  explicit RowCollective(const KernelCall& call) : text(call.scope, call.loc) {
    dtype = call.in[0].dtype;
    reduce = ReduceOf(call);
    site = text;
  }
  RowCollective(const RowCollective&) = delete;
  RowCollective& operator=(const RowCollective&) = delete;

  SiteText text;
};

template <DeviceKind kind>
struct AllReduceRow {
  explicit AllReduceRow(const KernelCall& call) : group(GroupOf<kind>(call)), c(call) {
    c.op = CollectiveOp::kAllReduce;
    c.in = call.in[0].data;
    c.out = call.out[0].data;
    c.count = call.in[0].CapacityElements();
    WEFT_CHECK(c.count == call.out[0].CapacityElements(), "all_reduce: input and output differ in capacity");
  }
  void Pack() const {}
  void Unpack() const {}

  ProcessGroup& group;
  RowCollective c;
};

// The chunks of the output along dim; the input is one of them.
ChunkLayout GatherLayout(const KernelCall& call, AttrName<int64_t> dim_name, int ranks) {
  int dim = int(call.attrs->Int(dim_name));
  return ChunkLayout(call.out[0], dim, call.in[0].dim(dim).capacity, ranks);
}

// The chunks of the input along dim; the output is one of them.
ChunkLayout SplitLayout(const KernelCall& call, AttrName<int64_t> dim_name, int ranks) {
  int dim = int(call.attrs->Int(dim_name));
  return ChunkLayout(call.in[0], dim, call.out[0].dim(dim).capacity, ranks);
}

template <DeviceKind kind>
size_t AllGatherWorkspace(const KernelCall& call) {
  ChunkLayout layout = GatherLayout(call, "dim", GroupOf<kind>(call).size());
  return layout.contiguous() ? 0 : size_t(layout.packed_bytes());
}

template <DeviceKind kind>
struct AllGatherRow {
  explicit AllGatherRow(const KernelCall& call)
      : group(GroupOf<kind>(call)), layout(GatherLayout(call, "dim", group.size())), out(call.out[0].data), c(call) {
    c.op = CollectiveOp::kAllGather;
    c.in = call.in[0].data;
    c.out = layout.contiguous() ? out : call.workspace;
    c.count = call.in[0].CapacityElements();
  }
  void Pack() const {}
  void Unpack() const {
    if (!layout.contiguous()) layout.Unpack(group, c.out, out);
  }

  ProcessGroup& group;
  ChunkLayout layout;
  void* out;
  RowCollective c;
};

template <DeviceKind kind>
size_t ReduceScatterWorkspace(const KernelCall& call) {
  ChunkLayout layout = SplitLayout(call, "dim", GroupOf<kind>(call).size());
  return layout.contiguous() ? 0 : size_t(layout.packed_bytes());
}

template <DeviceKind kind>
struct ReduceScatterRow {
  explicit ReduceScatterRow(const KernelCall& call)
      : group(GroupOf<kind>(call)),
        layout(SplitLayout(call, "dim", group.size())),
        in(call.in[0].data),
        workspace(call.workspace),
        c(call) {
    c.op = CollectiveOp::kReduceScatter;
    c.in = layout.contiguous() ? in : workspace;
    c.out = call.out[0].data;
    c.count = call.out[0].CapacityElements();
  }
  void Pack() const {
    if (!layout.contiguous()) layout.Pack(group, in, workspace);
  }
  void Unpack() const {}

  ProcessGroup& group;
  ChunkLayout layout;
  const void* in;
  void* workspace;
  RowCollective c;
};

// What rank p gets from rank r has r's chunk of gather_dim and p's chunk of split_dim: the input cut along split_dim is
// what is sent, the output cut along gather_dim what is received.
struct AllToAllPlan {
  ChunkLayout split, gather;
  int64_t send_bytes, recv_bytes;  // of workspace
  AllToAllPlan(const KernelCall& call, int ranks)
      : split(SplitLayout(call, "split_dim", ranks)), gather(GatherLayout(call, "gather_dim", ranks)) {
    send_bytes = split.contiguous() ? 0 : Aligned(split.packed_bytes());
    recv_bytes = gather.contiguous() ? 0 : Aligned(gather.packed_bytes());
    WEFT_CHECK(split.block_bytes() == gather.block_bytes(), "all_to_all: the pieces sent and received differ in size");
  }
};

template <DeviceKind kind>
size_t AllToAllWorkspace(const KernelCall& call) {
  AllToAllPlan plan(call, GroupOf<kind>(call).size());
  return size_t(plan.send_bytes + plan.recv_bytes);
}

template <DeviceKind kind>
struct AllToAllRow {
  explicit AllToAllRow(const KernelCall& from)
      : group(GroupOf<kind>(from)), plan(from, group.size()), call(from), c(from) {
    c.op = CollectiveOp::kAllToAll;
    c.in = plan.split.contiguous() ? call.in[0].data : call.workspace;
    c.out = plan.gather.contiguous() ? call.out[0].data : static_cast<char*>(call.workspace) + plan.send_bytes;
    c.count = plan.split.block_bytes() / int64_t(SizeOf(c.dtype));
  }
  void Pack() const {
    if (!plan.split.contiguous()) plan.split.Pack(group, call.in[0].data, call.workspace);
  }
  void Unpack() const {
    if (!plan.gather.contiguous()) plan.gather.Unpack(group, c.out, call.out[0].data);
  }

  ProcessGroup& group;
  AllToAllPlan plan;
  const KernelCall& call;
  RowCollective c;
};

template <class Row>
void RunRow(const KernelCall& call) {
  Row row(call);
  row.Pack();
  row.group.Enqueue(row.c);
  row.Unpack();
}

// Neighbours of one group go as one.
template <class Row>
void RunRows(std::span<const KernelCall> calls) {
  std::deque<Row> rows;
  for (const KernelCall& call : calls) rows.emplace_back(call).Pack();
  std::vector<Collective> together;
  for (size_t i = 0; i < rows.size(); i++) {
    together.push_back(rows[i].c);
    if (i + 1 < rows.size() && &rows[i + 1].group == &rows[i].group) continue;
    rows[i].group.EnqueueAll(together);
    together.clear();
  }
  for (const Row& row : rows) row.Unpack();
}

// Copies this rank's chunk: the views know where it starts.
template <DeviceKind kind>
void LocalSliceRow(const KernelCall& call) {
  const TensorView &in = call.in[0], &out = call.out[0];
  int dim = int(call.attrs->Int("dim"));
  if (out.NumElements() == 0) return;
  int64_t begin = out.dim(dim).offset - in.dim(dim).offset;
  ChunkLayout layout(in, dim, out.dim(dim).capacity, GroupOf<kind>(call).size());
  const char* from = static_cast<const char*>(in.data) + begin * layout.inner_bytes;
  GroupOf<kind>(call).CopyRows(out.data, layout.chunk * layout.inner_bytes, from, layout.full * layout.inner_bytes,
                               out.dim(dim).extent * layout.inner_bytes, layout.outer);
}

template <DeviceKind kind>
void MaskPartialRow(const KernelCall& call) {
  ProcessGroup& group = GroupOf<kind>(call);
  const TensorView &in = call.in[0], &out = call.out[0];
  if (ReduceOf(call) == ReduceOp::kSum && group.rank() != 0)
    group.Zero(out.data, StorageBytes(out));
  else if (in.data != out.data)
    group.CopyRows(out.data, StorageBytes(out), in.data, StorageBytes(in), StorageBytes(in), 1);
}

// Where collectives go on beside kernels, several go as one.
template <class Row>
KernelRow RowOf(DeviceKind kind, KernelRow row) {
  row.run = RunRow<Row>;
  if (kind == DeviceKind::kCuda) row.run_many = RunRows<Row>;
  return row;
}

template <DeviceKind kind>
void AddRows(KernelTable& table) {
  table.Add(Op::kAllReduce, RowOf<AllReduceRow<kind>>(kind, {.in_place = true}));
  table.Add(Op::kAllGather, RowOf<AllGatherRow<kind>>(kind, {.workspace = AllGatherWorkspace<kind>}));
  table.Add(Op::kReduceScatter, RowOf<ReduceScatterRow<kind>>(kind, {.workspace = ReduceScatterWorkspace<kind>}));
  table.Add(Op::kAllToAll, {.run = RunRow<AllToAllRow<kind>>, .workspace = AllToAllWorkspace<kind>});
  table.Add(Op::kLocalSlice, {.run = LocalSliceRow<kind>});
  table.Add(Op::kMaskPartial, {.run = MaskPartialRow<kind>, .in_place = true});
}

}  // namespace

void RegisterCollectives(KernelTable& table, DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return AddRows<DeviceKind::kCpu>(table);
    case DeviceKind::kCuda:
      return AddRows<DeviceKind::kCuda>(table);
  }
}

}  // namespace weft
