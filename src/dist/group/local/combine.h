// Combine: what one rank of a collective computes from the calls of all ranks, if it can read their inputs.
#pragma once
#include "absl/functional/function_ref.h"
#include "weft/dist/group/collective.h"

namespace weft {

// Returns the call of a rank of the group. Its input can be read.
using CallOfRank = absl::FunctionRef<const Collective&(int rank)>;

// Throws Error, with the call that differs, unless the calls of all ranks belong together.
void CheckCalls(const Collective& call, int rank, int size, CallOfRank calls);

// Writes the output of `rank`, which no other rank may read meanwhile. Sends, receives and barriers have none.
void Combine(const Collective& call, int rank, int size, CallOfRank calls);

}  // namespace weft
