// Lists in the arguments of weft bench: "256,512", "1M..64M", "f32,bf16". Errors name the key, what was expected and
// what was given.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

// Parses "256,512": integers from 1 to 2^24.
absl::StatusOr<std::vector<int64_t>> ParseCounts(const std::string& key, const std::string& text);

// Parses "4K,1M", or "1M..64M" for the sizes from 1M to 64M, each `factor` times the previous one. K, M and G are
// powers of 1024, as in nccl-tests. Sizes are from 1 byte to 1024G.
absl::StatusOr<std::vector<int64_t>> ParseBytes(const std::string& key, const std::string& text, int64_t factor);

// Parses "f32,bf16". All names must be among the choices.
absl::StatusOr<std::vector<std::string>> ParseNames(const std::string& key, const std::string& text,
                                                    const std::vector<std::string>& choices);

// Parses the lists of several keys as ParseCounts does, and makes them all as long as the longest. A list of one number
// is repeated. Any other shorter list is an error.
struct KeyText {
  std::string key, text;
};
absl::StatusOr<std::vector<std::vector<int64_t>>> ParseAligned(std::span<const KeyText> lists);

}  // namespace weft
