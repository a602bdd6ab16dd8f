// Combine: what one rank of a collective computes from the calls of all ranks, if it can read their inputs.
#pragma once
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/dist/group/collective.h"

namespace weft {

// Returns the call of a rank of the group. Its input and its counts can be read.
using CallOfRank = absl::FunctionRef<const Collective&(int rank)>;

// Makes the counts of `call` a copy in `kept`, which other ranks can read when the call has ended on its own rank.
void KeepCounts(Collective& call, std::vector<int64_t>& kept);

// Throws Error, with the calls or the counts that differ, unless the calls of all ranks belong together. It throws on
// all ranks or on none, so that no rank combines inputs of a rank that has left.
void CheckCalls(const Collective& call, int rank, int size, CallOfRank calls);

// Writes the output of `rank`, which no other rank may read meanwhile. Sends, receives and barriers have none.
void Combine(const Collective& call, int rank, int size, CallOfRank calls);

}  // namespace weft
