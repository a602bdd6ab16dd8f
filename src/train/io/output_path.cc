#include "weft/train/io/output_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "weft/train/io/durable.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

absl::Status Bad(const std::string& path, const std::string& what) {
  return absl::UnavailableError(fmt::format("{}: {}", path, what));
}

}  // namespace

absl::Status MakeOutputFolder(const std::string& folder) {
  std::vector<std::string> missing = MissingFolders(folder);
  fs::path first = missing.empty() ? "" : missing[0];
  if (!first.empty() && first.parent_path() == first.root_path())
    return Bad(folder, fmt::format("there is no {}, and a folder of / is not made unasked; make it, or give another "
                                   "path",
                                   first.string()));
  if (absl::Status s = MakeFolders(folder); !s.ok())
    return absl::UnavailableError(std::string(s.message()) + "; give another path");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return Bad(folder, fmt::format("cannot be written ({}); give another path", std::strerror(errno)));
}

absl::Status CheckOutputFile(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return Bad(path, fmt::format("expected a file, got a folder; give {}, say", (fs::path(path) / "log").string()));
  if (std::string folder = fs::path(path).parent_path().string(); !folder.empty())
    if (absl::Status s = MakeOutputFolder(folder); !s.ok()) return s;
  bool there = fs::exists(path, error);
  int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0) return Bad(path, fmt::format("cannot be written ({}); give another path", std::strerror(errno)));
  ::close(fd);
  if (!there) ::unlink(path.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> MoveAside(const std::string& path) {
  for (int64_t number = 1;; number++) {
    std::string aside = fmt::format("{}.{}", path, number);
    std::error_code error;
    if (fs::exists(aside, error)) continue;
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE) == 0) return aside;
    // RENAME_NOREPLACE is not supported.
    if (errno == EINVAL && std::rename(path.c_str(), aside.c_str()) == 0) return aside;
    if (errno != EEXIST)
      return absl::UnavailableError(fmt::format("{}: cannot be moved to {} ({}); move it, or give another path", path,
                                                aside, std::strerror(errno)));
  }
}

}  // namespace weft
