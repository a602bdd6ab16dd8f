#include "weft/dist/start/ready_pipe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "weft/core/base/error.h"
#include "weft/core/host/message.h"

namespace weft {

ReadyPipe::ReadyPipe() {
  std::array<int, 2> ends{};
  WEFT_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, fmt::format("pipe: {}", std::strerror(errno)));
  out_ = Socket(ends[0]);
  in_ = Socket(ends[1]);
  ::setenv(kReadyVariable, fmt::format("/proc/{}/fd/{}", ::getpid(), in_.fd()).c_str(), /*overwrite=*/1);
}

bool ReadyPipe::Ready() {
  pollfd event{.fd = out_.fd(), .events = POLLIN, .revents = 0};
  if (!ready_) ready_ = ::poll(&event, 1, 0) == 1;
  return ready_;
}

void ReportReady() {
  const char* path = std::getenv(kReadyVariable);
  if (!path) return;
  Socket pipe(::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (pipe && ::write(pipe.fd(), "R", 1) == 1) return;
  PrintStderr(
      "weft: {}: expected to report there that signals stop this run, but it cannot be written ({}); stop the run by "
      "SIGUSR1 to mpirun, because SIGTERM or SIGINT to the program that started mpirun would end it unsaved\n",
      path, std::strerror(errno));
}

}  // namespace weft
