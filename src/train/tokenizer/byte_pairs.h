// Byte pair encoding (BPE): the bytes of a word are merged in pairs into tokens, in the order of a learned table.
//
//   WordEncoder encoder(pairs);       // caches the words that it has encoded
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

// The tables of a trained BPE tokenizer.
struct BytePairs {
  struct Merge {
    uint32_t rank;  // of two possible merges, the one of lower rank is done first
    int32_t token;  // the token that the pair becomes
  };
  static constexpr uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }

  std::array<int32_t, 256> letters{};           // the tokens of single bytes
  absl::flat_hash_map<uint64_t, Merge> merges;  // the key is KeyOf(left, right)
  // Tokens that bypass the merges: a word with the same bytes becomes the token directly.
  absl::flat_hash_map<std::string, int32_t> whole_words;
};

// Encodes words. Not thread-safe. Encoding n bytes takes O(n log n) steps, and fewer for a word in the cache.
class WordEncoder {
 public:
  static constexpr size_t kLongest = (size_t{1} << 32) - 2;  // bytes of a word

  // `pairs` must outlive the encoder.
  explicit WordEncoder(const BytePairs& pairs) : pairs_(pairs) {}
  void Encode(std::string_view word, std::vector<int32_t>& tokens);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A current token of the word. A symbol that was merged into the one before it has merge.rank = kNone.
  struct Symbol {
    int32_t token;
    uint32_t previous, next;  // indices into symbols_, or kNone
    BytePairs::Merge merge;   // with the next symbol; rank = kNone if there is none
  };
  void Merge(std::string_view word, std::vector<int32_t>& tokens);
  void Rate(uint32_t symbol);
  void MergeWithNext(uint32_t symbol);

  const BytePairs& pairs_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;  // rank and symbol of each pending merge, lowest first; some entries are stale
  absl::flat_hash_map<std::string, absl::InlinedVector<int32_t, 6>> seen_;
};

}  // namespace weft
