#include <algorithm>

#include "weft/dist/group/collectives.h"
#include "weft/dist/group/rows/row_call.h"
#include "weft/dist/group/rows/wire_rows.h"

namespace weft {
namespace {

int64_t StorageBytes(const TensorView& view) { return view.CapacityElements() * int64_t(SizeOf(view.dtype)); }

struct AllReduceRow {
  AllReduceRow(const KernelCall& call, ProcessGroup& g) : group(g), c(call) {
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

size_t AllReduceBytes(const KernelCall& call, const ProcessGroup& g) {
  return HasWire(call) ? WireAllReduceBytes(call, g.size()) : 0;
}

size_t AllGatherBytes(const KernelCall& call, const ProcessGroup& g) {
  ChunkLayout layout = GatherLayout(call, "dim", g.size());
  return IsDirect(layout, g) ? 0 : size_t(layout.packed_bytes());
}

struct AllGatherRow {
  AllGatherRow(const KernelCall& call, ProcessGroup& g)
      : group(g), layout(GatherLayout(call, "dim", g.size())), out(call.out[0].data), c(call) {
    bool direct = IsDirect(layout, g);
    c.op = CollectiveOp::kAllGather;
    c.in = call.in[0].data;
    c.out = direct ? out : call.workspace;
    c.count = call.in[0].CapacityElements();
    c.blocks = direct ? layout.outer : 1;
  }
  void Pack() const {}
  void Unpack() const {
    if (c.out != out) layout.Unpack(group, c.out, out);
  }

  ProcessGroup& group;
  ChunkLayout layout;
  void* out;
  RowCollective c;
};

size_t ReduceScatterBytes(const KernelCall& call, const ProcessGroup& g) {
  if (HasWire(call)) return WireScatterBytes(call, g);
  ChunkLayout layout = SplitLayout(call, "dim", g.size());
  return IsDirect(layout, g) ? 0 : size_t(layout.packed_bytes());
}

struct ReduceScatterRow {
  ReduceScatterRow(const KernelCall& call, ProcessGroup& g)
      : group(g), layout(SplitLayout(call, "dim", g.size())), in(call.in[0].data), workspace(call.workspace), c(call) {
    bool direct = IsDirect(layout, g);
    c.op = CollectiveOp::kReduceScatter;
    c.in = direct ? in : workspace;
    c.out = call.out[0].data;
    c.count = call.out[0].CapacityElements();
    c.blocks = direct ? layout.outer : 1;
  }
  void Pack() const {
    if (c.in != in) layout.Pack(group, in, workspace);
  }
  void Unpack() const {}

  ProcessGroup& group;
  ChunkLayout layout;
  const void* in;
  void* workspace;
  RowCollective c;
};

// Rank p receives from rank r a piece with r's chunk of gather_dim and p's chunk of split_dim. The sent pieces are the
// input cut along split_dim, the received ones the output cut along gather_dim.
struct AllToAllPlan {
  ChunkLayout split, gather;
  int64_t send_bytes, recv_bytes;  // bytes of the workspace
  AllToAllPlan(const KernelCall& call, int ranks)
      : split(SplitLayout(call, "split_dim", ranks)), gather(GatherLayout(call, "gather_dim", ranks)) {
    send_bytes = split.contiguous() ? 0 : PartBytes(split.packed_bytes());
    recv_bytes = gather.contiguous() ? 0 : PartBytes(gather.packed_bytes());
    WEFT_CHECK(split.block_bytes() == gather.block_bytes(), "all_to_all: the pieces sent and received differ in size");
  }
};

size_t AllToAllBytes(const KernelCall& call, const ProcessGroup& g) {
  AllToAllPlan plan(call, g.size());
  return size_t(plan.send_bytes + plan.recv_bytes);
}

struct AllToAllRow {
  AllToAllRow(const KernelCall& from, ProcessGroup& g) : group(g), plan(from, g.size()), call(from), c(from) {
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

// Copies this rank's chunk. The offsets of the views give its start.
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

template <DeviceKind kind>
void ReduceScatters(std::span<const KernelCall> calls, bool wire) {
  if (!wire) return RunRows<ReduceScatterRow, kind>(calls);
  RunRows<WireScatterRow, kind>(calls);
}

template <DeviceKind kind>
void AllReduces(std::span<const KernelCall> calls, bool wire) {
  if (!wire) return RunRows<AllReduceRow, kind>(calls);
  RunRows<WireSumRow, kind>(calls);
  RunRows<WireShareRow, kind>(calls);
}

template <DeviceKind kind>
void ReduceScatter(const KernelCall& call) {
  if (!HasWire(call)) return RunRow<ReduceScatterRow, kind>(call);
  RunRow<WireScatterRow, kind>(call);
}

template <DeviceKind kind>
void AllReduce(const KernelCall& call) {
  if (!HasWire(call)) return RunRow<AllReduceRow, kind>(call);
  RunRow<WireSumRow, kind>(call);
  RunRow<WireShareRow, kind>(call);
}

// Joins adjacent calls with a wire, and adjacent calls without one.
template <void (*run)(std::span<const KernelCall>, bool wire)>
void RunByWire(std::span<const KernelCall> calls) {
  while (!calls.empty()) {
    bool wire = HasWire(calls[0]);
    auto end = std::find_if(calls.begin(), calls.end(), [wire](const KernelCall& c) { return HasWire(c) != wire; });
    auto count = size_t(end - calls.begin());
    run(calls.first(count), wire);
    calls = calls.subspan(count);
  }
}

template <size_t (*bytes)(const KernelCall&, const ProcessGroup&), DeviceKind kind>
size_t Workspace(const KernelCall& call) {
  return bytes(call, GroupOf<kind>(call));
}

// Collectives on a GPU run next to kernels, so several calls are joined into one there.
template <DeviceKind kind>
KernelRow Joined(KernelRow row, void (*run_many)(std::span<const KernelCall>)) {
  if (kind == DeviceKind::kCuda) row.run_many = run_many;
  return row;
}

template <DeviceKind kind>
void AddRows(KernelTable& table) {
  table.Add(Op::kAllReduce,
            Joined<kind>({.run = AllReduce<kind>, .workspace = Workspace<AllReduceBytes, kind>, .in_place = true},
                         RunByWire<AllReduces<kind>>));
  table.Add(Op::kAllGather,
            Joined<kind>({.run = RunRow<AllGatherRow, kind>, .workspace = Workspace<AllGatherBytes, kind>},
                         RunRows<AllGatherRow, kind>));
  table.Add(Op::kReduceScatter,
            Joined<kind>({.run = ReduceScatter<kind>, .workspace = Workspace<ReduceScatterBytes, kind>},
                         RunByWire<ReduceScatters<kind>>));
  table.Add(Op::kAllToAll, {.run = RunRow<AllToAllRow, kind>, .workspace = Workspace<AllToAllBytes, kind>});
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
