// InputFile: a file on disk, read from its beginning.
//
// A FIFO, a device or a socket may wait for ever, or have no end. It is refused before it is opened, as opening one has
// effects of its own; what takes its name after that is refused too, and does not make the open wait.
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
  // Errors name the path: it is no file on disk, has more than `most` bytes, or cannot be opened.
  static absl::StatusOr<InputFile> Open(const std::string& path, uint64_t most = kAnySize);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  uint64_t size() const { return size_; }  // when it was opened
  int fd() const { return fd_; }
  // Fills `out` unless the file ends before. Returns the number of bytes.
  absl::StatusOr<size_t> Read(std::span<char> out);

 private:
  InputFile(std::string path, int fd, uint64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_;
  uint64_t size_;
};

}  // namespace weft
