// OpenMpi: environment variables that configure Open MPI. Versions 4 (Debian 12) and 5 (Debian 13) have different names
// for them, and each ignores the other's.
#pragma once
#include <chrono>
#include <span>
#include <utility>

namespace weft {

// Returns the names and values that mpirun needs on one host, also in a container and as root. launcher/environment.sh
// has the same ones with the reasons.
std::span<const std::pair<const char*, const char*>> MpirunVariables();

// Chooses Open MPI's transports unless the environment does. Requires a rank in which MPI has not started. On one host
// shared memory is enough. TCP would listen on all interfaces there, and probing other transports takes seconds.
void ChooseTransports();

// Returns how long mpirun takes to notice a lost host by the keepalives of its connections to the daemons. Uses Open
// MPI's defaults for unset variables. Returns the maximum if keepalives are off.
std::chrono::milliseconds LossNotice();

}  // namespace weft
