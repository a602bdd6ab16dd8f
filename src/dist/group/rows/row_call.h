// Row calls: helpers that the rows of collectives share: the group of a call, its collective and chunks, and how rows
// run.
//
// A row type is constructed from a call and its group. It has the members `group`, the collective `c`, Pack, which
// prepares the input of c, and Unpack, which processes the output of c. All three run in the order of the group's
// calls.
#pragma once
#include <deque>
#include <span>
#include <vector>

#include "weft/core/host/rounding.h"
#include "weft/dist/group/chunk_layout.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// Alignment of the parts of a workspace, in bytes.
constexpr int64_t kPartAlign = 64;
constexpr int64_t PartBytes(int64_t bytes) { return RoundUp(bytes, kPartAlign); }

// Every CollectiveContext is a DeviceMesh.
template <DeviceKind kind>
ProcessGroup& GroupOf(const KernelCall& call) {
  WEFT_CHECK(call.mesh, "a collective was run without a mesh");
  return static_cast<DeviceMesh&>(*call.mesh).Group(int(call.attrs->Int("axis")), kind);
}

inline ReduceOp ReduceOf(const KernelCall& call) {
  return ReduceOp(call.attrs->IntOr("reduce", int64_t(ReduceOp::kSum)));
}

// The collective of a row with its type, reduction and site (module and line). The row sets op, memory and count.
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

// Returns the chunks of the output along dim. The input is one of them.
inline ChunkLayout GatherLayout(const KernelCall& call, AttrName<int64_t> dim_name, int ranks) {
  int dim = int(call.attrs->Int(dim_name));
  return ChunkLayout(call.out[0], dim, call.in[0].dim(dim).capacity, ranks);
}

// Returns the chunks of the input along dim. The output is one of them.
inline ChunkLayout SplitLayout(const KernelCall& call, AttrName<int64_t> dim_name, int ranks) {
  int dim = int(call.attrs->Int(dim_name));
  return ChunkLayout(call.in[0], dim, call.out[0].dim(dim).capacity, ranks);
}

// Whether the group moves the chunks from or to their places in the whole tensor. Packing copies the tensor once more,
// and costs less than many calls, or than those of blocks that cannot be read in whole vectors.
inline bool IsDirect(const ChunkLayout& layout, const ProcessGroup& group) {
  constexpr int64_t kMostBlocks = 64, kVector = 16;
  if (layout.contiguous()) return true;
  return group.takes_blocks() && layout.even() && layout.outer <= kMostBlocks &&
         layout.chunk * layout.inner_bytes % kVector == 0;
}

template <class Row, DeviceKind kind>
void RunRow(const KernelCall& call) {
  Row row(call, GroupOf<kind>(call));
  row.Pack();
  row.group.Enqueue(row.c);
  row.Unpack();
}

// Joins adjacent calls of one group into one EnqueueAll.
template <class Row, DeviceKind kind>
void RunRows(std::span<const KernelCall> calls) {
  std::deque<Row> rows;
  for (const KernelCall& call : calls) rows.emplace_back(call, GroupOf<kind>(call)).Pack();
  std::vector<Collective> together;
  for (size_t i = 0; i < rows.size(); i++) {
    together.push_back(rows[i].c);
    if (i + 1 < rows.size() && &rows[i + 1].group == &rows[i].group) continue;
    rows[i].group.EnqueueAll(together);
    together.clear();
  }
  for (const Row& row : rows) row.Unpack();
}

}  // namespace weft
