// TokenShardWriter: writes token ids as shards (token_shard.h). Tools for llm.c's format can read each shard.
//
//   TokenShardWriter writer([](int n) { return fmt::format("train_{:06}.bin", n); }, vocab, 100'000'000);
//   absl::Status status = writer.Write(tokens);
//   if (status.ok()) status = writer.Finish();
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "weft/train/data/source/token_shard.h"
#include "weft/train/io/durable.h"

namespace weft {

class TokenShardWriter {
 public:
  // `path_of` returns the path of shard 1, 2, ... Each shard except the last has `most` tokens. Requires tokens below
  // `vocab`.
  TokenShardWriter(std::function<std::string(int)> path_of, int64_t vocab, int64_t most);

  absl::Status Write(std::span<const int32_t> tokens);
  // Finishes the last shard. When it returns, all shards are on the disk.
  absl::Status Finish();

  int64_t tokens() const { return tokens_; }
  int shards() const { return shards_; }

 private:
  absl::Status Begin();
  absl::Status Put(std::span<const int32_t> tokens);

  std::function<std::string(int)> path_of_;
  const ShardFormat& format_;
  int64_t most_;
  std::optional<DurableFile> file_;  // the last shard, until it is full
  std::vector<std::byte> bytes_;
  int64_t in_shard_ = 0, tokens_ = 0;
  int shards_ = 0;
};

}  // namespace weft
