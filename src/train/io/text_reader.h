// Reading texts that may be larger than memory, block by block.
//
//   TextReader reader({"a.txt", "b.txt"});
//   for (;;) {
//     absl::StatusOr<std::string_view> text = reader.Next();
//     if (!text.ok() || text->empty()) break;
//   }
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/train/io/input_file.h"

namespace weft {

// The bytes of a file. Errors name the path.
class BlockReader {
 public:
  static absl::StatusOr<BlockReader> Open(const std::string& path);
  // Adds the next bytes, `most` of them unless the file ends before.
  absl::Status Append(size_t most, std::string& bytes);

 private:
  explicit BlockReader(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  bool ended_ = false;
};

// All of a file that is known to be small, such as a tokenizer's: at most 256 MB.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The texts of files, end to end. Each must be UTF-8 and not empty; errors name the file and the offset of the first
// bad byte.
class TextReader {
 public:
  static constexpr size_t kBlock = size_t{1} << 18;  // bytes at once
  // A block has at least the bytes of a code point.
  explicit TextReader(std::vector<std::string> files, size_t block = kBlock)
      : files_(std::move(files)), block_(block) {}

  // The next of the text, in whole code points; empty at the end. Good until the next call.
  absl::StatusOr<std::string_view> Next();

 private:
  absl::Status Fill();
  absl::Status Check(std::string_view text) const;

  std::vector<std::string> files_;
  size_t block_;
  size_t next_ = 0;                  // of files_
  std::optional<BlockReader> file_;  // files_[next_ - 1]
  std::string buffer_;
  size_t given_ = 0;    // bytes of buffer_ that the last call gave
  int64_t offset_ = 0;  // of buffer_ in the file
};

}  // namespace weft
