// MappedFile: the bytes of a file, read from disk when touched and held in memory once for all processes of a host.
//
// A byte cannot be read if the disk fails, or if the file was truncated after it was opened. Such a byte reads as 0,
// and from then on every other byte may read as 0 too. Callers must check Fault() before they use the bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/io/input_file.h"
#include "weft/train/io/mapping_watch.h"

namespace weft {

class MappedFile {
 public:
  // How the file will be accessed. kAnywhere reads only the pages that are touched; by default the system reads far
  // ahead.
  enum Access : uint8_t { kInOrder, kAnywhere };
  // Errors name the path. Open fails if the path is not a file on disk, has more than `most` bytes, or cannot be opened
  // or mapped. The WEFT_FAULT point "map" makes the second half of the file unreadable.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path, Access access = kInOrder,
                                                                uint64_t most = kAnySize);
  // Asks the system to read a part of a mapped file now. Does not wait for it.
  static void ReadAhead(std::span<const std::byte> part);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool ok() const { return !watch_ || watch_->lost() < 0; }
  // Returns OK if every byte touched so far could be read. The error names the path and either the first unreadable
  // offset or the truncated size.
  absl::Status Fault() const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes);

  std::string path_;
  std::span<const std::byte> bytes_;
  std::optional<MappingWatch> watch_;  // none for an empty file
};

}  // namespace weft
