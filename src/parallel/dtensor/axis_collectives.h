// Collectives on DTensors, by the name of a mesh axis. The device of the DTensor selects the backend.
//
//   DTensor sum = collectives::AllReduce(x, "tp");                // Partial on tp becomes Replicate
//   DTensor rows = collectives::ReduceScatter(x, "tp", 0);        // Partial on tp becomes Shard(0)
//
// Each function changes the placement on one axis and keeps those of the others, as Redistribute does. It is
// differentiable. All ranks of the mesh must call it. An axis with one rank sends nothing. They throw Error for an
// empty DTensor, for an unknown axis, and if x has another placement on the axis.
#pragma once
#include <string_view>

#include "weft/parallel/dtensor/dtensor.h"

namespace weft::collectives {

DTensor AllReduce(const DTensor& x, std::string_view axis, Loc loc = Loc::current());  // Partial to Replicate
DTensor AllGather(const DTensor& x, std::string_view axis, Loc loc = Loc::current());  // Shard to Replicate
// Partial to Shard(dim). A negative dim counts from the end. Chunks of an axis that shards the dim already are cut
// again.
DTensor ReduceScatter(const DTensor& x, std::string_view axis, int dim, Loc loc = Loc::current());
// Shard of another dim to Shard(split_dim), which is cut again as above; x itself if it is so already.
DTensor AllToAll(const DTensor& x, std::string_view axis, int split_dim, Loc loc = Loc::current());

}  // namespace weft::collectives
