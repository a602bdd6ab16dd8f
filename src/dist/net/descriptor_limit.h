// Descriptor limit: a job of many ranks needs more open files per process than most shells allow, and a connection that
// cannot be opened looks to the other ranks like one that was refused.
#pragma once
#include <cstdint>

#include "absl/status/status.h"

namespace weft {

// The file descriptors that a rank opens to meet the others at MASTER_ADDR. Rank 0 listens there for all ranks, and for
// processes of its own user that ask for a secret.
int64_t DescriptorsToMeet(int rank, int world_size);

// The file descriptors that a rank's PeerNetwork opens at start: a listener, connections to neighbouring ranks, guests.
int64_t DescriptorsOfNetwork();

// The most file descriptors that a rank opens at once after its start: the sockets of its groups, the questions and
// answers of a job that fails, logs, data and checkpoints.
int64_t DescriptorsOfRank(int world_size);

// How many guests that have not proved themselves may be kept, at most `most`: as many as the limit of this process
// leaves, raised as far as it may be, beside what is open and `own` more, and those that DescriptorsOfNetwork counts.
int64_t GuestsToKeep(int64_t own, int64_t most);

// Makes sure that this process of a job of `world_size` ranks can open `more` files, and raises its soft limit where
// that is needed. kResourceExhausted, with the numbers and the limit to set, when the hard limit is lower.
absl::Status ReserveDescriptors(int64_t more, int world_size);

}  // namespace weft
