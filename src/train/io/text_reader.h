// Reading texts that may be larger than memory, block by block.
//
//   TextReader reader({"a.txt", "b.txt"});
//   for (;;) {
//     absl::StatusOr<std::string_view> text = reader.Next();
//     if (!text.ok() || text->empty()) break;
//   }
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/train/io/decoder.h"
#include "weft/train/io/input_file.h"

namespace weft {

// The bytes of a file, unpacked if it begins as gzip or Zstandard does. Errors name the path and, of a damaged stream,
// the offset in the file.
class BlockReader {
 public:
  static absl::StatusOr<BlockReader> Open(const std::string& path);
  // Adds the next bytes, `most` of them unless the file ends before. The first call asks for 4 or more, which tell
  // whether the file is packed.
  absl::Status Append(size_t most, std::string& bytes);
  bool packed() const { return decoder_ != nullptr; }          // known after the first call
  int64_t taken() const { return offset_ + int64_t(taken_); }  // bytes of the file that Append has used

 private:
  BlockReader(InputFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Unpack(size_t most, std::string& bytes);
  absl::Status Refill();

  InputFile file_;
  std::string path_;
  bool begun_ = false, ended_ = false;
  std::unique_ptr<Decoder> decoder_;  // null: the file is not packed
  std::string packed_;                // bytes of the file,
  size_t taken_ = 0;                  //   of which the decoder has taken so many
  int64_t offset_ = 0;                // of packed_ in the file, or of what follows
};

// All of a file that is known to be small, such as a tokenizer's: at most `most` bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most = 256'000'000);

// The texts of files, end to end, each without a byte order mark. Each must be UTF-8 and not empty; errors name the
// file and the offset of the first bad byte, which counts unpacked bytes.
class TextReader {
 public:
  static constexpr size_t kBlock = size_t{1} << 18;  // bytes at once
  // A block has at least the bytes of a code point.
  explicit TextReader(std::vector<std::string> files, size_t block = kBlock)
      : files_(std::move(files)), block_(block) {}

  // The next of the text, in whole code points; empty at the end. Good until the next call.
  absl::StatusOr<std::string_view> Next();
  // Of the file that the last text came from: whether that text was its first, and whether it began with a byte order
  // mark.
  bool begins_file() const { return begins_; }
  bool dropped_mark() const { return dropped_mark_; }
  // Bytes of the open file that were used so far; 0 behind its end.
  int64_t taken() const { return file_ ? file_->taken() : 0; }

 private:
  absl::Status Fill();
  absl::Status DropMark();
  absl::Status Check(std::string_view text) const;

  std::vector<std::string> files_;
  size_t block_;
  size_t next_ = 0;                  // of files_
  std::optional<BlockReader> file_;  // files_[next_ - 1]
  std::string buffer_;
  size_t given_ = 0;    // bytes of buffer_ that the last call gave
  int64_t offset_ = 0;  // of buffer_ in the file
  bool begins_ = false, dropped_mark_ = false;
};

}  // namespace weft
