// Durable files and folders: data reaches the disk before its name does, so both survive a power cut.
//
// Errors name the path and the system's reason. Each step is a fault point (core/testing/fault.h): mkdir, create,
// write, fsync, rename, exchange, fsync_dir, remove.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/train/io/save_progress.h"

namespace weft {

// A new file that is written sequentially, except for a header whose content may be known only at the end. Write-back
// to the disk starts while the file is written, so that Close has little left to wait for.
class DurableFile {
 public:
  // `progress` may be null. It counts the bytes as they go to the disk and must outlive the file.
  static absl::StatusOr<DurableFile> Create(const std::string& path, SaveProgress* progress = nullptr);
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Replaces the bytes written at `offset` and after it with `bytes`.
  absl::Status Overwrite(int64_t offset, std::span<const std::byte> bytes);
  // Waits until the whole file is on the disk, then closes it.
  absl::Status Close();

 private:
  DurableFile(std::string path, int fd, SaveProgress* progress)
      : path_(std::move(path)), fd_(fd), progress_(progress) {}
  absl::Status WriteSome(std::span<const std::byte> bytes);
  absl::Status PushOut();

  std::string path_;
  int fd_;
  SaveProgress* progress_;
  int64_t end_ = 0, pushed_ = 0;  // bytes written, and how many of them were submitted for write-back
};
// Writes a whole file and waits until it is on the disk.
absl::Status WriteFile(const std::string& path, std::string_view text);

// Returns the folders that MakeFolders would create, topmost first, as absolute paths.
std::vector<std::string> MissingFolders(const std::string& path);
// Creates `path` and its missing parents, and waits until the new names are on the disk.
absl::Status MakeFolders(const std::string& path);
absl::Status RemoveAll(const std::string& path);
// Waits until the names in a folder are on the disk.
absl::Status SyncFolder(const std::string& path);
// Waits until the name of a file or folder is on the disk.
absl::Status SyncNameOf(const std::string& path);
// Renames `from` to `to` in one step. If `to` is a non-empty folder, the two folders exchange names. On a file system
// without an atomic exchange (such as NFS) the exchange takes three renames; a process killed between them leaves
// nothing under the name `to`.
absl::Status PutInPlace(const std::string& from, const std::string& to);

}  // namespace weft
