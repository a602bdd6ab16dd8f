// Reads texts that may be larger than memory, one block at a time.
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

// Reads the bytes of a file, decompressed if it starts like gzip or Zstandard. Errors name the path and, for a damaged
// stream, the offset in the file.
class BlockReader {
 public:
  static absl::StatusOr<BlockReader> Open(const std::string& path);
  // Appends the next `most` bytes to `bytes`, or fewer at the end of the file. The first call must ask for at least 4
  // bytes, which show whether the file is compressed.
  absl::Status Append(size_t most, std::string& bytes);
  bool packed() const { return decoder_ != nullptr; }          // known after the first call
  int64_t taken() const { return offset_ + int64_t(taken_); }  // bytes of the file consumed by Append

 private:
  BlockReader(InputFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Unpack(size_t most, std::string& bytes);
  absl::Status Refill();

  InputFile file_;
  std::string path_;
  bool begun_ = false, ended_ = false;
  std::unique_ptr<Decoder> decoder_;  // null: the file is not compressed
  std::string packed_;                // a block of the compressed file
  size_t taken_ = 0;                  // bytes of packed_ that the decoder has consumed
  int64_t offset_ = 0;                // of packed_ in the file; if not compressed, bytes read
};

// Reads a whole file that should be small, such as a tokenizer file. Returns an error above `most` bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most = 256'000'000);

// Concatenates the texts of files, each without its byte order mark. Each file must be non-empty UTF-8 without NUL
// bytes. Errors name the file and the offset of the first bad byte; the offset counts decompressed bytes.
class TextReader {
 public:
  static constexpr size_t kBlock = size_t{1} << 18;  // bytes read at once
  // `block` must be at least 4 bytes, the longest code point.
  explicit TextReader(std::vector<std::string> files, size_t block = kBlock)
      : files_(std::move(files)), block_(block) {}

  // Returns the next part of the text in whole code points, or an empty view at the end. Valid until the next call.
  absl::StatusOr<std::string_view> Next();
  // begins_file(): whether the last text was the first of its file. dropped_mark(): whether that file began with a byte
  // order mark.
  bool begins_file() const { return begins_; }
  bool dropped_mark() const { return dropped_mark_; }
  // Returns the bytes of the open file consumed so far, or 0 after its end.
  int64_t taken() const { return file_ ? file_->taken() : 0; }

 private:
  absl::Status Fill();
  absl::Status DropMark();
  absl::Status Check(std::string_view text) const;

  std::vector<std::string> files_;
  size_t block_;
  size_t next_ = 0;                  // index into files_ of the next file
  std::optional<BlockReader> file_;  // files_[next_ - 1]
  std::string buffer_;
  size_t given_ = 0;    // bytes of buffer_ that the last call returned
  int64_t offset_ = 0;  // of buffer_ in the decompressed file
  bool begins_ = false, dropped_mark_ = false;
};

}  // namespace weft
