// Mpirun: starts the ranks of a program by running the program under mpirun.
#pragma once
#include <string>
#include <vector>

namespace weft {

// The variable with the width of the terminal that shows the ranks' output, in columns; 0 if it goes elsewhere.
inline constexpr const char* kTerminalVariable = "WEFT_TERMINAL";

// Runs `mpirun -np RANKS COMMAND...` on this host, with those variables of launcher/environment.sh that are not set
// yet. Returns the exit code, which is 128 plus the signal's number if a signal ended mpirun. The first SIGTERM, SIGINT
// or SIGUSR1 is passed on. If `stops` says that the ranks stop on request, it is sent as SIGUSR1, which mpirun forwards
// to them. Otherwise it is sent unchanged, and mpirun ends the ranks. A second signal ends this process, and with it
// mpirun and the ranks. Throws Error if mpirun cannot be started.
int RunMpirun(int ranks, const std::vector<std::string>& command, bool stops);

// Returns this process's program, by its full path, and its arguments. Throws Error if they cannot be read.
std::vector<std::string> OwnCommand();

}  // namespace weft
