#include "weft/train/io/durable.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "weft/core/testing/fault.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 16 << 20;  // bytes per write call; small enough that progress shows

absl::Status Failed(const std::string& path, const char* what, int error) {
  return absl::UnavailableError(fmt::format("{}: cannot be {} ({})", path, what, std::strerror(error)));
}

// Makes the call unless a fault is injected at `point`. Returns 0 or an errno value.
template <class Call>
int Result(const char* point, Call call) {
  if (int fault = FaultAt(point)) return fault;
  return call() < 0 ? errno : 0;
}

int Move(const fs::path& from, const fs::path& to) { return ::rename(from.c_str(), to.c_str()) < 0 ? errno : 0; }

// Exchanges the names of two folders through a temporary name that no reader looks for.
int ExchangeByMoves(const fs::path& a, const fs::path& b) {
  fs::path aside = b.parent_path() / fmt::format(".tmp-{}.old", b.filename().string());
  int error = Move(b, aside);
  if (!error && (error = Move(a, b))) Move(aside, b);
  return error ? error : Move(aside, a);
}

}  // namespace

absl::StatusOr<DurableFile> DurableFile::Create(const std::string& path, SaveProgress* progress) {
  int fd = -1;
  int error =
      Result("create", [&] { return fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644); });
  if (error) return Failed(path, "made", error);
  return DurableFile(path, fd, progress);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      progress_(other.progress_),
      end_(other.end_),
      pushed_(other.pushed_) {}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status DurableFile::WriteSome(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed(path_, "written", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(size_t(written));
    end_ += written;
    if (absl::Status s = PushOut(); !s.ok()) return s;
    if (progress_) progress_->Add(uint64_t(written));
  }
  return absl::OkStatus();
}

// Submits the bytes written since the last call for write-back, and waits for those submitted before. This does not
// guarantee that the data is on the disk; the later fsync does. The kernel reports a disk error once per open file,
// either here or in fsync.
absl::Status DurableFile::PushOut() {
  if (end_ - pushed_ < int64_t(kPiece)) return absl::OkStatus();
  int error = 0;
  if (pushed_ > 0 && ::sync_file_range(fd_, 0, pushed_, SYNC_FILE_RANGE_WAIT_BEFORE) < 0) error = errno;
  if (!error && ::sync_file_range(fd_, pushed_, end_ - pushed_, SYNC_FILE_RANGE_WRITE) < 0) error = errno;
  pushed_ = end_;
  bool unsupported = error == ENOSYS || error == EINVAL || error == ESPIPE || error == EOPNOTSUPP;
  return error && !unsupported ? Failed(path_, "brought to the disk", error) : absl::OkStatus();
}

// An injected fault leaves half of the bytes written.
absl::Status DurableFile::Write(std::span<const std::byte> bytes) {
  size_t half = bytes.size() / 2;
  if (absl::Status s = WriteSome(bytes.first(half)); !s.ok()) return s;
  if (int fault = FaultAt("write")) return Failed(path_, "written", fault);
  return WriteSome(bytes.subspan(half));
}

absl::Status DurableFile::Overwrite(int64_t offset, std::span<const std::byte> bytes) {
  if (int fault = FaultAt("write")) return Failed(path_, "written", fault);
  while (!bytes.empty()) {
    ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed(path_, "written", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(size_t(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Close() {
  int error = Result("fsync", [&] { return ::fsync(fd_); });
  bool closed = ::close(std::exchange(fd_, -1)) == 0;  // network file systems report a full disk here
  if (!error && !closed) error = errno;
  if (progress_) progress_->Add();
  return error ? Failed(path_, "brought to the disk", error) : absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  absl::StatusOr<DurableFile> file = DurableFile::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status s = file->Write(text); !s.ok()) return s;
  return file->Close();
}

std::vector<std::string> MissingFolders(const std::string& path) {
  std::vector<std::string> missing;
  std::error_code error;
  for (fs::path at = fs::absolute(path, error).lexically_normal(); at.has_relative_path(); at = at.parent_path()) {
    if (fs::exists(at, error)) break;
    if (at.has_filename()) missing.push_back(at.string());  // "a/" and "a" are the same folder
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

absl::Status MakeFolders(const std::string& path) {
  std::vector<std::string> missing = MissingFolders(path);
  if (int fault = missing.empty() ? 0 : FaultAt("mkdir")) return Failed(path, "made", fault);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Failed(path, "made", error.value());
  for (const std::string& folder : missing)
    if (absl::Status s = SyncNameOf(folder); !s.ok()) return s;
  return absl::OkStatus();
}

absl::Status RemoveAll(const std::string& path) {
  if (int fault = FaultAt("remove")) return Failed(path, "removed", fault);
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Failed(path, "removed", error.value()) : absl::OkStatus();
}

absl::Status SyncFolder(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(path, "opened", errno);
  int error = Result("fsync_dir", [&] { return ::fsync(fd); });
  ::close(fd);
  // EINVAL: the file system needs no fsync.
  return error && error != EINVAL ? Failed(path, "brought to the disk", error) : absl::OkStatus();
}

absl::Status SyncNameOf(const std::string& path) {
  std::error_code error;
  fs::path full = fs::absolute(path, error).lexically_normal();
  fs::path parent = full.has_filename() ? full.parent_path() : full.parent_path().parent_path();
  bool listed = ::access(parent.c_str(), R_OK) == 0;  // a folder that can be written but not read cannot be synced
  return listed ? SyncFolder(parent.string()) : absl::OkStatus();
}

absl::Status PutInPlace(const std::string& from, const std::string& to) {
  int error = Result("rename", [&] { return ::rename(from.c_str(), to.c_str()); });
  if (error == ENOTEMPTY || error == EEXIST)
    error =
        Result("exchange", [&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE); });
  if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) error = ExchangeByMoves(from, to);
  return error ? Failed(from, fmt::format("renamed to {}", to).c_str(), error) : absl::OkStatus();
}

}  // namespace weft
