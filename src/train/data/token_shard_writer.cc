#include "weft/train/data/token_shard_writer.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace weft {

TokenShardWriter::TokenShardWriter(std::function<std::string(int)> path_of, int64_t vocab, int64_t most)
    : path_of_(std::move(path_of)), format_(ShardFormatOf(vocab)), most_(std::min(most, kMostShardTokens)) {}

absl::Status TokenShardWriter::Write(std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    if (!file_)
      if (absl::Status s = Begin(); !s.ok()) return s;
    std::span<const int32_t> part = tokens.first(std::min(tokens.size(), size_t(most_ - in_shard_)));
    if (absl::Status s = Put(part); !s.ok()) return s;
    tokens = tokens.subspan(part.size());
    if (in_shard_ < most_) continue;
    if (absl::Status s = Finish(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// The header is written at the end, when the number of tokens is known.
absl::Status TokenShardWriter::Begin() {
  absl::StatusOr<DurableFile> file = DurableFile::Create(path_of_(++shards_));
  if (!file.ok()) return file.status();
  file_.emplace(*std::move(file));
  in_shard_ = 0;
  return file_->Write(std::vector<std::byte>(size_t(kShardHeaderBytes)));
}

// Copies the low bytes of each token: memory and file are both little-endian.
absl::Status TokenShardWriter::Put(std::span<const int32_t> tokens) {
  auto width = size_t(format_.width);
  bytes_.resize(tokens.size() * width);
  for (size_t i = 0; i < tokens.size(); i++) std::memcpy(bytes_.data() + i * width, &tokens[i], width);
  in_shard_ += int64_t(tokens.size());
  tokens_ += int64_t(tokens.size());
  return file_->Write(bytes_);
}

absl::Status TokenShardWriter::Finish() {
  if (!file_) return absl::OkStatus();
  std::array<int32_t, 3> header = {format_.magic, format_.version, int32_t(in_shard_)};
  absl::Status status = file_->Overwrite(0, std::as_bytes(std::span(header)));
  if (status.ok()) status = file_->Close();
  file_.reset();
  return status;
}

}  // namespace weft
