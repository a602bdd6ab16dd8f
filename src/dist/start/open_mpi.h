// OpenMpi: how Open MPI is told to run the ranks, by variables. Those of version 4 (Debian 12) and of version 5
// (Debian 13) have other names; a version ignores the other's.
#pragma once
#include <chrono>
#include <span>
#include <utility>

namespace weft {

// What mpirun wants on one host, also in a container and as root: name and value, as launcher/environment.sh has them,
// and why.
std::span<const std::pair<const char*, const char*>> MpirunVariables();

// In a rank, before MPI starts: chooses Open MPI's transports unless the environment has. Shared memory does on one
// host, where its TCP would listen on all interfaces; and looking for others takes seconds.
void ChooseTransports();

// How long mpirun takes to notice that a host is lost, by the keepalives of its connections to the daemons; Open MPI's
// defaults where the environment has none.
std::chrono::milliseconds LossNotice();

}  // namespace weft
