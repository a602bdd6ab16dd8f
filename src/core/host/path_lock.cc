#include "weft/core/host/path_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "fmt/format.h"

namespace weft {
namespace {

bool IsSame(int a, int b) {
  struct stat x {
  }, y{};
  return a >= 0 && ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

}  // namespace

PathLock::~PathLock() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status PathLock::Take(const std::string& path) {
  constexpr std::chrono::milliseconds kPatience{5000}, kPause{50};
  struct stat there {};
  bool lockable = ::stat(path.c_str(), &there) == 0 && (S_ISREG(there.st_mode) || S_ISDIR(there.st_mode));
  int fd = lockable ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (fd < 0) return absl::OkStatus();
  auto end = std::chrono::steady_clock::now() + kPatience;
  bool held = IsSame(fd_, fd);  // by this object, and two of its descriptors would wait for each other
  while (!held && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (std::chrono::steady_clock::now() > end) {
      ::close(fd);
      const char* kind = S_ISDIR(there.st_mode) ? "folder" : "file";
      return absl::InvalidArgumentError(
          fmt::format("expected a {0} that no other run writes to, got {1}, which one does; wait for its end, or give "
                      "another {0}",
                      kind, path));
    }
    std::this_thread::sleep_for(kPause);
  }
  if (!held) std::swap(fd, fd_);
  if (fd >= 0) ::close(fd);
  return absl::OkStatus();
}

}  // namespace weft
