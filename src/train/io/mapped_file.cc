#include "weft/train/io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/rounding.h"
#include "weft/core/testing/fault.h"

namespace weft {
namespace {

size_t PageSize() { return size_t(::sysconf(_SC_PAGESIZE)); }

// Replaces the second half of a mapping, from a page boundary on, with pages past the end of the file.
void LoseHalf(const InputFile& file, void* data) {
  size_t page = PageSize(), pages = RoundUpBytes(size_t(file.size()), page) / page, kept = pages / 2;
  ::mmap(static_cast<std::byte*>(data) + kept * page, (pages - kept) * page, PROT_READ, MAP_SHARED | MAP_FIXED,
         file.fd(), off_t(pages * page));
}

absl::Status Unmapped(const std::string& path, int error) {
  std::string limit = error == ENOMEM ? LimitText() : "";
  return absl::InvalidArgumentError(
      fmt::format("{}: cannot be mapped into memory ({}){}", path, std::strerror(error), limit));
}

}  // namespace

MappedFile::MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {
  if (!bytes_.empty()) watch_.emplace(bytes_);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path, Access access,
                                                                   uint64_t most) {
  absl::StatusOr<InputFile> file = InputFile::Open(path, most);
  if (!file.ok()) return file.status();
  auto size = size_t(file->size());
  // mmap refuses 0 bytes.
  void* data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd(), 0);
  if (data == MAP_FAILED) return Unmapped(path, errno);
  if (size > 0 && access == kAnywhere) ::madvise(data, size, MADV_RANDOM);  // a hint: errors do no harm
  if (size > 0 && FaultAt("map")) LoseHalf(*file, data);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const std::byte*>(data), size}));
}

absl::Status MappedFile::Fault() const {
  if (ok()) return absl::OkStatus();
  std::error_code error;
  uintmax_t size = std::filesystem::file_size(path_, error);
  if (!error && size < bytes_.size())
    return absl::DataLossError(
        fmt::format("{}: it was cut short while it was read, from {} bytes to {}; copy or make "
                    "it again",
                    path_, bytes_.size(), size));
  return absl::DataLossError(
      fmt::format("{}: byte {} cannot be read ({}); the disk may be failing: copy the file from "
                  "elsewhere",
                  path_, watch_->lost(), std::strerror(EIO)));
}

void MappedFile::ReadAhead(std::span<const std::byte> part) {
  auto page = uintptr_t(PageSize()), begin = reinterpret_cast<uintptr_t>(part.data());
  uintptr_t before = begin % page;
  ::madvise(reinterpret_cast<void*>(begin - before), part.size() + before, MADV_WILLNEED);  // a hint: errors do no harm
}

MappedFile::~MappedFile() {
  watch_.reset();
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace weft
