#include "weft/train/log/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace weft {
namespace {

std::string Unwritable(const std::string& path, int error) {
  return fmt::format("{}: cannot be written ({})", path, std::strerror(error));
}

constexpr int FlagsOf(LogFile::Begin begin) {
  if (begin == LogFile::Begin::kEmpty) return O_TRUNC;
  return begin == LogFile::Begin::kNew ? O_EXCL : 0;
}

}  // namespace

// O_APPEND: after another process has cut the file, a write at the old offset would leave a hole before it.
absl::StatusOr<LogFile> LogFile::Open(const std::string& path, Begin begin) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | FlagsOf(begin), 0666);
  struct stat opened {};
  bool usable = fd >= 0 && ::fstat(fd, &opened) == 0;
  std::FILE* file = usable ? ::fdopen(fd, "ab") : nullptr;
  if (file) return LogFile(path, file, opened);
  int error = errno;
  if (fd >= 0) ::close(fd);
  if (error == EEXIST) return absl::AlreadyExistsError(Unwritable(path, error));
  return absl::InvalidArgumentError(Unwritable(path, error));
}

absl::Status LogFile::Append(std::string_view bytes) {
  appended_ += int64_t(bytes.size());
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size();
  return written ? absl::OkStatus() : absl::UnavailableError(Unwritable(path_, errno));
}

absl::Status LogFile::Flush() {
  if (std::fflush(file_.get()) != 0) return absl::UnavailableError(Unwritable(path_, errno));
  flushed_ = appended_;
  return absl::OkStatus();
}

std::string LogFile::Loss() const {
  if (!S_ISREG(opened_.st_mode)) return "";
  struct stat open {
  }, there{};
  if (::fstat(fileno(file_.get()), &open) != 0) return "";
  if (open.st_nlink == 0) return "was removed";
  bool found = ::stat(path_.c_str(), &there) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return "";  // the next write tells more
  if (!found || there.st_dev != open.st_dev || there.st_ino != open.st_ino) return "was moved or replaced";
  return open.st_size < flushed_ ? "was cut short" : "";
}

}  // namespace weft
