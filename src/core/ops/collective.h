// Collectives and the local moves beside them. Only Partition makes these nodes.
#pragma once

// Storage is dense row-major over capacities; all ranks of the axis have equal capacities. Pieces are whole chunks:
//
// AllReduce      axis, reduce: elementwise over the ranks of the axis. Output may share storage with the input.
// AllGather      axis, dim: concatenates the ranks' chunks along dim, in order of coordinate, cut to the output's
//                capacity (k chunks may exceed it; what is cut is padding, because only trailing ranks hold less).
// ReduceScatter  axis, dim, reduce: reduces, then rank c keeps chunk c of dim (chunk = output capacity; the input is
//                padded to k chunks).
// AllToAll       axis, gather_dim, split_dim: from a shard of gather_dim to a shard of split_dim.
// LocalSlice     axis, dim: rank c keeps chunk c of dim. No communication.
// MaskPartial    axis, reduce: Replicate to Partial: coordinate 0 keeps x, the others hold the reduction's identity
//                (0 for sum; x itself for max and min). No communication.
// clang-format off
#define WEFT_COLLECTIVE_OPS(X)         \
  X(AllReduce, "all_reduce")           \
  X(AllGather, "all_gather")           \
  X(ReduceScatter, "reduce_scatter")   \
  X(AllToAll, "all_to_all")            \
  X(LocalSlice, "local_slice")         \
  X(MaskPartial, "mask_partial")
// clang-format on
