// TokenShard: a file of token ids in llm.c's format.
//
// The file is a header of 256 little-endian int32 (magic, version, number of tokens, zeros), followed by the tokens
// only. Magic 20240520 version 1 has uint16 tokens, as for GPT-2's tokenizer; magic 20240801 version 7 has uint32
// tokens, as for Llama 3's.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/io/mapped_file.h"

namespace weft {

inline constexpr int64_t kShardHeaderBytes = 256 * sizeof(int32_t);
inline constexpr int64_t kMostShardTokens = std::numeric_limits<int32_t>::max();

struct ShardFormat {
  int32_t magic, version;
  int width;  // bytes per token
};
// Returns the narrowest format that can hold every id below `vocab`.
const ShardFormat& ShardFormatOf(int64_t vocab);

struct TokenShard {
  std::shared_ptr<const MappedFile> file;
  const void* tokens = nullptr;  // unsigned integers of `width` bytes
  int width = 0;                 // 2 or 4
  int64_t size = 0;              // number of tokens
};

// Whether a file begins with one of the magics. No text does, because neither magic is valid UTF-8.
bool BeginsAsTokenShard(const std::string& path);

// Errors name the file, what was expected, what was found and how to fix it.
absl::StatusOr<TokenShard> OpenTokenShard(const std::string& path);

}  // namespace weft
