// Descriptor limit: a job of many ranks needs more open files per process than most shells allow. If a rank cannot open
// a connection, the other ranks would see it as refused.
#pragma once
#include <cstdint>

#include "absl/status/status.h"

namespace weft {

// Returns how many file descriptors a rank opens to meet the others at MASTER_ADDR. Rank 0 listens there for all ranks,
// and for processes of its own user that ask for a secret.
int64_t DescriptorsToMeet(int rank, int world_size);

// Returns how many file descriptors a rank's PeerNetwork opens at start: a listener, an event, connections to the two
// neighbouring ranks, and a few guests.
int64_t DescriptorsOfNetwork();

// Returns the most file descriptors that a rank has open at once after its start: sockets of its groups, questions and
// answers of a job that fails, logs, data and checkpoints.
int64_t DescriptorsOfRank(int world_size);

// Returns how many unproven guests this process may keep, at most `most` and at least the few that DescriptorsOfNetwork
// includes. Raises the soft limit if that helps. `own` is the number of further descriptors that the process will need,
// including DescriptorsOfNetwork().
int64_t GuestsToKeep(int64_t own, int64_t most);

// Makes sure that this process can open `more` files, and raises its soft limit if needed. Returns kResourceExhausted,
// with the numbers and the limit to set, if the hard limit is lower. `world_size` is for that message.
absl::Status ReserveDescriptors(int64_t more, int world_size);

}  // namespace weft
