// Wire: sums over ranks whose terms travel in a narrower type than the one they are added in. The attribute `wire` of
// Reshard, AllReduce and ReduceScatter names that type.
//
// Each rank rounds its f32 terms to bf16 once, before it sends them. The ranks exchange chunks, and each rank adds the
// terms of its own chunk in f32, in rank order. A reduce_scatter ends here. An all_reduce rounds the sums to bf16,
// which is a second rounding, and gathers them. If the program already has the sum without a wire, that sum is used as
// it is.
//
// The terms of a ReduceScatter may be bf16 already. If a product wrote them so for the wire (passes/narrow_terms.h),
// the sums are f32. Those of values in bf16 are rounded to bf16 once (PartitionOptions::exchange_terms).
#pragma once
#include <optional>

#include "weft/core/ir/node.h"

namespace weft {

std::optional<DType> WireOf(const Attrs& attrs);  // nullopt: the terms travel in their own type
// Throws Error if the node has the attribute but is not a sum of f32 over ranks, or if its wire is not bf16. The terms
// of a ReduceScatter may also have the wire's type.
void CheckWire(const Node& node);
// Returns the elements of each rank's chunk in an all_reduce of `elements` elements. The chunks cover them all. A chunk
// is a multiple of 16 bytes, so that a device can read it in whole vectors.
int64_t WireChunk(int64_t elements, int ranks);

}  // namespace weft
