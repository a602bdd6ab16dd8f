// InputFile: a file on disk, read from its beginning.
//
// A FIFO, a device or a socket may block forever or never end. Open refuses one before opening it, because opening has
// side effects. It refuses one that takes over the name afterwards too, and that open does not block.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace weft {

inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

class InputFile {
 public:
  // Errors name the path. Open fails if the path is not a file on disk, has more than `most` bytes, or cannot be
  // opened.
  static absl::StatusOr<InputFile> Open(const std::string& path, uint64_t most = kAnySize);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  uint64_t size() const { return size_; }  // in bytes, when the file was opened
  int fd() const { return fd_; }
  // Reads until `out` is full or the file ends. Returns the number of bytes read.
  absl::StatusOr<size_t> Read(std::span<char> out);

 private:
  InputFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_;
  uint64_t size_;
};

}  // namespace weft
