// Mpirun: starts the ranks of a program by running the program under mpirun.
#pragma once
#include <string>
#include <vector>

#include "weft/dist/start/signal_relay.h"

namespace weft {

// Runs `mpirun -np RANKS COMMAND...` on this host, with those variables of launcher/environment.sh that are not set
// yet, and without mpirun's lines about a rank that ended. Returns the exit code of SignalRelay, which passes the first
// SIGTERM, SIGINT or SIGUSR1 on to the ranks, or ends them. A second signal ends this process, and with it mpirun and
// the ranks. With kConverse, every SIGINT is passed on once the ranks read lines, and stdin is passed on to mpirun,
// which forwards it to rank 0. Throws Error if mpirun cannot be started.
int RunMpirun(int ranks, const std::vector<std::string>& command, RankControl control);

// Returns this process's program, by its full path, and its arguments. Throws Error if they cannot be read.
std::vector<std::string> OwnCommand();

}  // namespace weft
