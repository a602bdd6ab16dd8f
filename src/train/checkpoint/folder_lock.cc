#include "weft/train/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "fmt/format.h"

namespace weft {

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status FolderLock::Take(const std::string& folder) {
  constexpr std::chrono::milliseconds kPatience{5000}, kPause{50};
  if (fd_ < 0) fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (std::chrono::steady_clock::now() > end)
      return absl::InvalidArgumentError(fmt::format(
          "expected a folder that no other run writes to, got {}, which one does; wait for its end, or give "
          "another folder",
          folder));
    std::this_thread::sleep_for(kPause);
  }
  return absl::OkStatus();
}

}  // namespace weft
