// Files and folders that are there after a power cut: what is written is on the disk before its name is.
//
// Errors name the path and the system's reason. Each step is a fault point (core/testing/fault.h): mkdir, create,
// write, fsync, rename, fsync_dir, remove.
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

// A new file, written from its beginning to its end, but for a header that may be known last. The disk works while it
// is written, so that Close has little left to wait for.
class DurableFile {
 public:
  // `progress`, unless null, gets the bytes as they go to the disk, and outlives the file.
  static absl::StatusOr<DurableFile> Create(const std::string& path, SaveProgress* progress = nullptr);
  ~DurableFile();
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;

  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Puts `bytes` in the place of those that were written from `offset` on.
  absl::Status Overwrite(int64_t offset, std::span<const std::byte> bytes);
  // Waits until all of it is on the disk.
  absl::Status Close();

 private:
  DurableFile(std::string path, int fd, SaveProgress* progress)
      : path_(std::move(path)), fd_(fd), progress_(progress) {}
  absl::Status WriteSome(std::span<const std::byte> bytes);
  absl::Status PushOut();

  std::string path_;
  int fd_;
  SaveProgress* progress_;
  int64_t end_ = 0, pushed_ = 0;  // bytes written, and of these, those that the disk is asked to take
};
// A whole file, waited for likewise.
absl::Status WriteFile(const std::string& path, std::string_view text);

// Those that MakeFolders would make, topmost first; in full.
std::vector<std::string> MissingFolders(const std::string& path);
// Waits until the names of those that it made are on the disk.
absl::Status MakeFolders(const std::string& path);
absl::Status RemoveAll(const std::string& path);
// Waits until the names in a folder are on the disk.
absl::Status SyncFolder(const std::string& path);
// The same of the name of a file or folder.
absl::Status SyncNameOf(const std::string& path);
// Gives a file or folder its name in one step. A folder that has the name already takes the old one in exchange: where
// the file system cannot (NFS, say) in three steps, between which a process that is killed leaves the name to neither.
absl::Status PutInPlace(const std::string& from, const std::string& to);

}  // namespace weft
