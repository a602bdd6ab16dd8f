#include "weft/train/log/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "weft/core/host/message.h"

namespace weft {

absl::Status Print(std::string_view text) {
  PrintMessage(stdout, text);
  return CheckPrinted();
}

absl::Status PrintBytes(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  return CheckPrinted();
}

absl::Status CheckPrinted() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("stdout: cannot be written ({}), so output is lost; write it elsewhere",
                                            errno ? std::strerror(errno) : "an earlier write failed"));
}

// open() returns the lowest free descriptor. O_PATH allows neither reads nor writes.
void ReserveStandardFiles() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)::open("/", O_PATH);
}

}  // namespace weft
