// Ranks that a program starts by itself: it runs under mpirun once more.
#pragma once
#include <string>
#include <vector>

namespace weft {

// Tells the ranks how wide the terminal is that their output goes to; 0: it goes elsewhere.
inline constexpr const char* kTerminalVariable = "WEFT_TERMINAL";

// Runs `mpirun -np RANKS COMMAND...` on this host, with the variables of launcher/environment.sh where they are not set
// yet, and returns the exit code; 128 plus the signal's number if a signal ended mpirun. The first SIGTERM, SIGINT or
// SIGUSR1 is passed on to the ranks: as SIGUSR1, which mpirun hands to them, if `stops` says that they stop by it; else
// as it is, and mpirun ends them. A second one ends this process, and with it mpirun and the ranks.
// Throws Error when mpirun cannot be started.
int RunMpirun(int ranks, const std::vector<std::string>& command, bool stops);

// This process's program and arguments, the program by its full path. Throws Error when they cannot be read.
std::vector<std::string> OwnCommand();

}  // namespace weft
