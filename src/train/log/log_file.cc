#include "weft/train/log/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"

namespace weft {
namespace {

std::string Unwritable(const std::string& path, int error) {
  return fmt::format("{}: cannot be written ({})", path, std::strerror(error));
}

}  // namespace

// O_APPEND, because after another process truncates the file, a write at the old offset would leave a hole.
absl::StatusOr<LogFile> LogFile::Open(const std::string& path, Begin begin) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (begin == Begin::kNew ? O_EXCL : 0), 0666);
  struct stat opened {};
  bool usable = fd >= 0 && ::fstat(fd, &opened) == 0;
  std::FILE* file = usable ? ::fdopen(fd, "ab") : nullptr;
  if (file) return LogFile(path, file, opened);
  int error = errno;
  if (fd >= 0) ::close(fd);
  if (error == EEXIST) return absl::AlreadyExistsError(Unwritable(path, error));
  return absl::InvalidArgumentError(Unwritable(path, error));
}

namespace {

// Checks regular files only, because reading from a pipe would block.
bool EndsInALine(const std::string& path) {
  std::error_code error;
  std::FILE* file = std::filesystem::is_regular_file(path, error) ? std::fopen(path.c_str(), "rbe") : nullptr;
  if (!file) return true;
  int last = std::fseek(file, -1, SEEK_END) == 0 ? std::fgetc(file) : EOF;
  std::fclose(file);
  return last == '\n' || last == EOF;
}

}  // namespace

absl::StatusOr<LogFile> LogFile::OpenLines(const std::string& path) {
  std::error_code error;  // if the folder cannot be created, opening the file reports it
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  bool cut = !EndsInALine(path);
  absl::StatusOr<LogFile> file = Open(path, Begin::kAppend);
  if (!file.ok() || !cut) return file;
  if (absl::Status s = file->AppendNow("\n"); !s.ok()) return s;
  return file;
}

absl::Status LogFile::AppendNow(std::string_view bytes) {
  absl::Status status = Append(bytes);
  return status.ok() ? Flush() : status;
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
  if (!found && errno != ENOENT && errno != ENOTDIR) return "";  // the next write reports the error
  if (!found || there.st_dev != open.st_dev || there.st_ino != open.st_ino) return "was moved or replaced";
  return open.st_size < flushed_ ? "was cut short" : "";
}

}  // namespace weft
