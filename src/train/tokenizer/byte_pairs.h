// Byte pair encoding: a word's bytes, merged two by two in the order of a learnt table, become tokens.
//
//   WordEncoder encoder(pairs);       // with memory of its own for words that it has seen
//   encoder.Encode(word, tokens);
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

namespace weft {

// What a tokenizer has learnt.
struct BytePairs {
  struct Merge {
    uint32_t rank;  // of two that can be merged, the lower goes first
    int32_t token;  // that both become
  };
  static constexpr uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }

  std::array<int32_t, 256> letters{};           // the tokens of single bytes
  absl::flat_hash_map<uint64_t, Merge> merges;  // by KeyOf two tokens
  // The tokens of words that are never merged: a word that is one of these is that token.
  absl::flat_hash_map<std::string, int32_t> whole_words;
};

// Encodes the words of one thread. Takes n log n steps for n bytes, and fewer for a word that came before.
class WordEncoder {
 public:
  static constexpr size_t kLongest = (size_t{1} << 32) - 2;  // bytes of a word

  // `pairs` outlive it.
  explicit WordEncoder(const BytePairs& pairs) : pairs_(pairs) {}
  void Encode(std::string_view word, std::vector<int32_t>& tokens);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A token of the word as it is so far; what was merged into the one before it has merge.rank = kNone.
  struct Symbol {
    int32_t token;
    uint32_t previous, next;  // indices, kNone for none
    BytePairs::Merge merge;   // with the next one; rank = kNone: none
  };
  void Merge(std::string_view word, std::vector<int32_t>& tokens);
  void Rate(uint32_t symbol);
  void MergeWithNext(uint32_t symbol);

  const BytePairs& pairs_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;  // rank and symbol of the merges to come, the least first; some are of the past
  absl::flat_hash_map<std::string, absl::InlinedVector<int32_t, 6>> seen_;
};

}  // namespace weft
