// MappedFile: the bytes of a file, read from disk as they are touched and kept once for all processes of a host.
//
// The file must stay as it is: whoever cuts it short while it is mapped ends the process with SIGBUS.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace weft {

class MappedFile {
 public:
  // How it will be touched. kAnywhere: only the pages that are, where the system would otherwise read far ahead.
  enum Access : uint8_t { kInOrder, kAnywhere };
  // Errors name the path.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path, Access access = kInOrder);
  // Has the system read a part of a mapped file now, and does not wait for it.
  static void ReadAhead(std::span<const std::byte> part);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace weft
