#include "weft/train/data/source/token_stream.h"

#include <algorithm>

#include "weft/core/base/hash.h"
#include "weft/core/host/rounding.h"
#include "weft/train/data/source/token_shard.h"

namespace weft {
namespace {

template <class T>
uint32_t CopyTokens(const void* data, int64_t first, std::span<int32_t> out) {
  const T* from = static_cast<const T*>(data) + first;
  T largest = 0;
  for (size_t i = 0; i < out.size(); i++) {
    largest = std::max(largest, from[i]);
    out[i] = int32_t(from[i]);
  }
  return largest;
}

}  // namespace

TokenStream::TokenStream(std::vector<int32_t> ids) {
  if (ids.empty()) return;
  auto owner = std::make_shared<const std::vector<int32_t>>(std::move(ids));
  pieces_ = {{owner, owner->data(), 4, 0, 0, int64_t(owner->size()), "", nullptr}};
}

absl::StatusOr<TokenStream> TokenStream::Map(const std::vector<std::string>& shards) {
  TokenStream stream;
  for (const std::string& path : shards) {
    absl::StatusOr<TokenShard> shard = OpenTokenShard(path);
    if (!shard.ok()) return shard.status();
    int64_t begin = stream.size();
    stream.pieces_.push_back(
        {shard->file, shard->tokens, shard->width, 0, begin, begin + shard->size, path, shard->file.get()});
  }
  return stream;
}

const TokenStream::Piece& TokenStream::PieceOf(int64_t i) const {
  return *std::upper_bound(pieces_.begin(), pieces_.end(), i, [](int64_t at, const Piece& p) { return at < p.end; });
}

uint32_t TokenStream::Piece::Read(int64_t i, std::span<int32_t> out) const {
  int64_t at = first + i - begin;
  return width == 2 ? CopyTokens<uint16_t>(data, at, out) : CopyTokens<uint32_t>(data, at, out);
}

int64_t TokenStream::HeldBytes() const {
  int64_t bytes = 0;
  for (const Piece& piece : pieces_)
    if (piece.file.empty()) bytes += (piece.end - piece.begin) * piece.width;
  return bytes;
}

int32_t TokenStream::operator[](int64_t i) const {
  int32_t token = 0;
  PieceOf(i).Read(i, {&token, 1});
  return token;
}

uint32_t TokenStream::Read(int64_t begin, std::span<int32_t> out) const {
  uint32_t largest = 0;
  while (!out.empty()) {
    const Piece& piece = PieceOf(begin);
    auto count = size_t(std::min(piece.end - begin, int64_t(out.size())));
    largest = std::max(largest, piece.Read(begin, out.first(count)));
    begin += int64_t(count);
    out = out.subspan(count);
  }
  return largest;
}

absl::Status TokenStream::Fault(int64_t begin, int64_t end) const {
  while (begin < std::min(end, size())) {
    const Piece& piece = PieceOf(begin);
    if (piece.mapped && !piece.mapped->ok()) return piece.mapped->Fault();
    begin = piece.end;
  }
  return absl::OkStatus();
}

void TokenStream::ReadAhead() const {
  for (const Piece& piece : pieces_)
    if (!piece.file.empty())
      MappedFile::ReadAhead({static_cast<const std::byte*>(piece.data) + piece.first * piece.width,
                             size_t(piece.end - piece.begin) * size_t(piece.width)});
}

TokenStream TokenStream::CutTail(int64_t begin) {
  TokenStream tail;
  for (Piece piece : pieces_) {
    if (piece.end <= begin) continue;
    piece.first += std::max<int64_t>(begin - piece.begin, 0);
    piece.begin = tail.size();
    piece.end -= begin;
    tail.pieces_.push_back(piece);
  }
  std::erase_if(pieces_, [&](const Piece& piece) { return piece.begin >= begin; });
  if (!pieces_.empty()) pieces_.back().end = std::min(pieces_.back().end, begin);
  return tail;
}

void TokenStream::Append(const TokenStream& other) {
  int64_t begin = size();
  for (Piece piece : other.pieces_) {
    piece.begin += begin;
    piece.end += begin;
    pieces_.push_back(piece);
  }
}

TokenStream::Place TokenStream::PlaceOf(int64_t i) const {
  const Piece& piece = PieceOf(i);
  return {piece.file, piece.first + i - piece.begin};
}

TokenSummary Summarize(const TokenStream& stream) {
  // 2^26 tokens are read in about 0.1 s.
  constexpr int64_t kMostOnDisk = int64_t(1) << 26, kRun = 4096, kRuns = 1024;
  int64_t size = stream.size();
  bool whole = !stream.mapped() || size <= kMostOnDisk;
  int64_t runs = whole ? CeilDiv(size, kRun) : kRuns;
  if (whole) stream.ReadAhead();
  std::vector<int32_t> run(static_cast<size_t>(kRun));
  TokenSummary summary;
  StableHash hash;
  hash.Mix(uint64_t(size));
  for (int64_t r = 0; r < runs; r++) {
    int64_t begin = whole ? r * kRun : (size - kRun) / (runs - 1) * r;
    std::span<int32_t> out = std::span(run).first(size_t(std::min(kRun, size - begin)));
    if (r + 1 == runs) begin = size - int64_t(out.size());  // so that the last token is covered
    uint32_t largest = stream.Read(begin, out);
    for (int32_t token : out) hash.Mix(uint64_t(token));
    if (largest <= summary.largest) continue;
    summary.largest = largest;
    summary.largest_at = begin + (std::find(out.begin(), out.end(), int32_t(largest)) - out.begin());
  }
  summary.hash = hash.value();
  return summary;
}

}  // namespace weft
