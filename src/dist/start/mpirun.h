// Mpirun: starts the ranks of a program by running the program under mpirun.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// The variable with the width of the terminal that shows the ranks' output, in columns; 0 if it goes elsewhere.
inline constexpr const char* kTerminalVariable = "WEFT_TERMINAL";

// What signals do to the ranks, and whether rank 0 reads stdin.
enum class RankControl : uint8_t {
  kEnd,       // a signal ends them
  kStop,      // SIGTERM, SIGINT and SIGUSR1 ask them to stop
  kConverse,  // rank 0 reads stdin and takes each SIGUSR1 as an interrupt
};

// Runs `mpirun -np RANKS COMMAND...` on this host, with those variables of launcher/environment.sh that are not set
// yet, and without mpirun's lines about a rank that ended. Returns the exit code, which is 128 plus the signal's number
// if a signal ended mpirun. If mpirun returns the code of a rank that a signal ended, prints that signal. The first
// SIGTERM, SIGINT or SIGUSR1 is passed on. With kStop it is sent as SIGUSR1, which mpirun forwards to the ranks.
// Otherwise it is sent unchanged, and mpirun ends the ranks. A second signal ends this process, and with it mpirun and
// the ranks. With kConverse, every SIGINT is sent as SIGUSR1, and stdin is passed on to mpirun, which forwards it to
// rank 0. Throws Error if mpirun cannot be started.
int RunMpirun(int ranks, const std::vector<std::string>& command, RankControl control);

// Returns this process's program, by its full path, and its arguments. Throws Error if they cannot be read.
std::vector<std::string> OwnCommand();

}  // namespace weft
