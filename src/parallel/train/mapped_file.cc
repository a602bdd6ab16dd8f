#include "parallel/train/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace weft {
namespace {

// Open until the end of the scope: a mapping outlives it.
struct Descriptor {
  explicit Descriptor(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

absl::Status Bad(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(fmt::format("{}: {} ({})", path, what, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path, Access access) {
  Descriptor file(path);
  struct stat facts {};
  if (file.fd < 0 || ::fstat(file.fd, &facts) != 0) return Bad(path, "cannot be opened");
  if (!S_ISREG(facts.st_mode))
    return absl::InvalidArgumentError(path + ": expected a file, got a folder or a device; give a file on disk");
  auto size = size_t(facts.st_size);
  void* data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);  // 0 bytes: refused
  if (data == MAP_FAILED) return Bad(path, "cannot be mapped into memory");
  if (size > 0 && access == kAnywhere) ::madvise(data, size, MADV_RANDOM);  // no harm where it is refused
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const std::byte*>(data), size}));
}

void MappedFile::ReadAhead(std::span<const std::byte> part) {
  auto page = uintptr_t(::sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(part.data());
  uintptr_t before = begin % page;
  ::madvise(reinterpret_cast<void*>(begin - before), part.size() + before, MADV_WILLNEED);  // no harm where refused
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace weft
