// TokenStream: the tokens of a data set, end to end: the ids of a text, or token shards, which stay in their files.
//
//   absl::StatusOr<TokenStream> stream = TokenStream::Map({"train_000001.bin", "train_000002.bin"});
//   uint32_t largest = stream->Read(begin, row);
//
// A copy shares the tokens.
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
  explicit TokenStream(std::vector<int32_t> ids);  // none below 0
  static absl::StatusOr<TokenStream> Map(const std::vector<std::string>& shards);

  int64_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  bool mapped() const { return !pieces_.empty() && !pieces_[0].file.empty(); }
  // Bytes of memory that the ids take. Shards stay in their files and take none.
  int64_t HeldBytes() const;
  int32_t operator[](int64_t i) const;
  // Copies the tokens from `begin` on, all of which the stream must have, and gives the largest. Allocates nothing.
  uint32_t Read(int64_t begin, std::span<int32_t> out) const;
  // As MappedFile::Fault, of the files of the tokens [begin, end): those that could not be read are 0. Allocates
  // nothing while all is well.
  absl::Status Fault(int64_t begin, int64_t end) const;
  // Says that all tokens are to be read soon: files that are read anywhere come page by page otherwise.
  void ReadAhead() const;
  // Takes off the tokens from `begin` on, and gives them.
  TokenStream CutTail(int64_t begin);
  // Adds the tokens of another stream, which they share then.
  void Append(const TokenStream& other);

  // Where a token is, as errors name it.
  struct Place {
    std::string file;  // "" for ids
    int64_t position;
  };
  Place PlaceOf(int64_t i) const;

 private:
  // The tokens [begin, end) of the stream, which are unsigned integers of `width` bytes from position `first` of
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

// A stream at a glance: all of its tokens or, where they are on disk and more than 2^26, 1024 runs of them, from the
// first to the last.
struct TokenSummary {
  uint64_t hash = 0;  // of these and the size: the same for the same ids, and for the same shards
  uint32_t largest = 0;
  int64_t largest_at = 0;  // where it first is
};
TokenSummary Summarize(const TokenStream& stream);

}  // namespace weft
