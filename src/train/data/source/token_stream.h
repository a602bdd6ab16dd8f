// TokenStream: the tokens of a data set, concatenated. They are ids of a text, or token shards, which stay in their
// files.
//
//   absl::StatusOr<TokenStream> stream = TokenStream::Map({"train_000001.bin", "train_000002.bin"});
//   uint32_t largest = stream->Read(begin, row);
//
// Copies share the tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/io/mapped_file.h"

namespace weft {

class TokenStream {
 public:
  TokenStream() = default;
  explicit TokenStream(std::vector<int32_t> ids);  // all >= 0
  static absl::StatusOr<TokenStream> Map(const std::vector<std::string>& shards);

  int64_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  bool mapped() const { return !pieces_.empty() && !pieces_[0].file.empty(); }
  // Returns the bytes of memory that the ids take. Shards take none, because they stay in their files.
  int64_t HeldBytes() const;
  int32_t operator[](int64_t i) const;
  // Copies the tokens from `begin` on and returns the largest of them. Requires that the stream has enough. Allocates
  // nothing.
  uint32_t Read(int64_t begin, std::span<int32_t> out) const;
  // Returns MappedFile::Fault of the files of the tokens [begin, end). Tokens that could not be read are 0. Allocates
  // nothing unless there is an error.
  absl::Status Fault(int64_t begin, int64_t end) const;
  // Tells the system that all tokens will be read soon. Without it, the files are read page by page.
  void ReadAhead() const;
  // Removes the tokens from `begin` on and returns them.
  TokenStream CutTail(int64_t begin);
  // Appends the tokens of another stream; the two streams share them.
  void Append(const TokenStream& other);

  // The location of a token, as shown in errors.
  struct Place {
    std::string file;  // "" for ids
    int64_t position;
  };
  Place PlaceOf(int64_t i) const;

 private:
  // The tokens [begin, end) of the stream. They are unsigned integers of `width` bytes, starting at index `first` of
  // `data`.
  struct Piece {
    std::shared_ptr<const void> owner;  // of the memory
    const void* data;
    int width;  // 2 or 4
    int64_t first, begin, end;
    std::string file;
    const MappedFile* mapped;  // null: ids
    uint32_t Read(int64_t i, std::span<int32_t> out) const;
  };
  const Piece& PieceOf(int64_t i) const;

  std::vector<Piece> pieces_;
};

// A summary of a stream. It covers all tokens, except that of more than 2^26 tokens on disk it covers 1024 runs from
// the first token to the last.
struct TokenSummary {
  uint64_t hash = 0;  // of the covered tokens and the size; equal for ids and for shards of them
  uint32_t largest = 0;
  int64_t largest_at = 0;  // index of its first occurrence
};
TokenSummary Summarize(const TokenStream& stream);

}  // namespace weft
