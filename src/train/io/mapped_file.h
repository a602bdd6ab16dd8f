// MappedFile: the bytes of a file, read from disk as they are touched and kept once for all processes of a host.
//
// A byte that cannot be read, on a disk that fails or past the end of a file that was cut short meanwhile, is 0, and
// then all others may be 0 too. Whoever reads asks Fault() before the bytes are used.
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
  // How it will be touched. kAnywhere: only the pages that are, where the system would otherwise read far ahead.
  enum Access : uint8_t { kInOrder, kAnywhere };
  // Errors name the path: it is no file on disk, has more than `most` bytes, or cannot be opened or mapped. The point
  // "map" of WEFT_FAULT has a file whose second half cannot be read.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path, Access access = kInOrder,
                                                                uint64_t most = kAnySize);
  // Has the system read a part of a mapped file now, and does not wait for it.
  static void ReadAhead(std::span<const std::byte> part);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool ok() const { return !watch_ || watch_->lost() < 0; }
  // OK while all bytes that were touched could be read; else the path, the offset and why.
  absl::Status Fault() const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes);

  std::string path_;
  std::span<const std::byte> bytes_;
  std::optional<MappingWatch> watch_;  // none: no bytes
};

}  // namespace weft
