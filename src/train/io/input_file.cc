#include "weft/train/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "weft/core/testing/fault.h"
#include "weft/train/io/bad_input.h"

namespace weft {
namespace {

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

absl::Status CheckKind(const std::string& path, const struct stat& facts) {
  if (S_ISREG(facts.st_mode)) return absl::OkStatus();
  return BadInput(path, fmt::format("expected a file, got {}; give a file on disk", KindOf(facts.st_mode)));
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path, uint64_t most) {
  auto unopened = [&] { return BadInput(path, fmt::format("cannot be opened ({})", std::strerror(errno))); };
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return unopened();
  if (absl::Status s = CheckKind(path, facts); !s.ok()) return s;
  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), 0);
  if (file.fd_ < 0 || ::fstat(file.fd_, &facts) != 0) return unopened();
  if (absl::Status s = CheckKind(path, facts); !s.ok()) return s;
  file.size_ = uint64_t(facts.st_size);
  if (file.size_ <= most) return file;
  return BadInput(path,
                  fmt::format("expected at most {} bytes, got {}; is it another kind of file?", most, file.size_));
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<size_t> InputFile::Read(std::span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    int fault = FaultAt("read");
    ssize_t got = fault ? -1 : ::read(fd_, out.data() + done, out.size() - done);
    if (got < 0 && !fault && errno == EINTR) continue;
    if (got < 0)
      return BadInput(path_, fmt::format("cannot be read to its end ({})", std::strerror(fault ? fault : errno)));
    if (got == 0) break;
    done += size_t(got);
  }
  return done;
}

}  // namespace weft
