// InputPipe: passes the stdin of this process on to a child that has another process group, and so must not read the
// terminal itself.
#pragma once
#include <string>

#include "weft/dist/net/tcp_socket.h"

namespace weft {

class InputPipe {
 public:
  InputPipe();  // throws Error if there is no pipe

  int child_end() const { return out_.fd(); }  // the child's stdin
  void CloseChildEnd() { out_ = Socket(); }    // to be called once the child has it
  // Passes on what can be read and written now, without waiting. At the end of stdin, or if the child reads no more,
  // closes the pipe.
  void PassOn();

 private:
  bool Fill();   // whether there is something to pass on
  bool Drain();  // whether all of it was passed on

  Socket out_, in_;  // the ends that are read and written; in_ is closed at the end of the input
  std::string waiting_;
  bool ended_ = false;
};

}  // namespace weft
