// ReadyPipe: tells the program that started mpirun that its ranks take signals in order from now on. A signal that it
// passes on earlier would end mpirun or a rank, or reach no process.
//
// mpirun starts the ranks without the descriptors that it inherits, so a rank opens the pipe by its path in /proc.
#pragma once
#include "weft/dist/net/tcp_socket.h"

namespace weft {

// The variable with the path of the pipe.
inline constexpr const char* kReadyVariable = "WEFT_READY";

class ReadyPipe {
 public:
  ReadyPipe();   // sets the variable for processes started later; throws Error if there is no pipe
  bool Ready();  // whether a rank has reported, which it does once

 private:
  Socket out_, in_;
  bool ready_ = false;
};

// Reports to the ReadyPipe of the program that started mpirun, if there is one. Requires that all ranks catch the
// signals. Prints a line if the pipe cannot be written.
void ReportReady();

}  // namespace weft
