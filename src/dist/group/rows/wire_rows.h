// Wire rows: rows of sums whose terms are sent between ranks as bf16 (core/ir/wire.h).
//
//   reduce_scatter   WireScatterRow
//   all_reduce       WireSumRow, then WireShareRow for the same call
//
// NCCL's own bf16 sums round at every hop. So the ranks exchange the terms, and each rank sums the terms of its chunk.
// A workspace has two halves, each as large as all chunks in bf16. A reduce_scatter of chunks that are bf16 and packed
// sends them from where they are, and has one half.
#pragma once
#include "weft/dist/group/rows/row_call.h"

namespace weft {

bool HasWire(const KernelCall& call);

// Sends the input's chunks to their ranks. Each rank sums the chunks that it receives.
struct WireScatterRow {
  WireScatterRow(const KernelCall& call, ProcessGroup& g);
  void Pack() const;
  void Unpack() const;

  ProcessGroup& group;
  ChunkLayout layout;  // the chunks of the input in bf16
  const TensorView &in, &out;
  BF16 *narrow = nullptr, *packed = nullptr;  // in the workspace; null if the input is narrow, or packed, already
  RowCollective c;
};
size_t WireScatterBytes(const KernelCall& call, const ProcessGroup& g);  // bytes of the workspace

// The workspace of an all_reduce: two halves, each as large as all chunks in bf16.
struct WireHalves {
  WireHalves(const KernelCall& call, int ranks);

  int64_t chunk;  // elements of a rank's chunk
  BF16 *first, *second;
};

// Leaves the sums of this rank's chunk, in bf16, at the start of the workspace.
struct WireSumRow {
  WireSumRow(const KernelCall& call, ProcessGroup& g);
  void Pack() const;
  void Unpack() const;

  ProcessGroup& group;
  const TensorView& in;
  WireHalves halves;  // the rounded input, and the received terms
  RowCollective c;
};
// Gathers the sums of all chunks on all ranks.
struct WireShareRow {
  WireShareRow(const KernelCall& call, ProcessGroup& g);
  void Pack() const {}
  void Unpack() const;

  ProcessGroup& group;
  const TensorView& out;
  WireHalves halves;  // this rank's sums, and all ranks' sums
  RowCollective c;
};
size_t WireAllReduceBytes(const KernelCall& call, int ranks);  // bytes of the workspace

}  // namespace weft
