#include "weft/train/tokenizer/byte_pairs.h"

#include <algorithm>
#include <functional>

namespace weft {

void WordEncoder::Encode(std::string_view word, std::vector<int32_t>& tokens) {
  constexpr size_t kMostSeen = size_t{1} << 16, kLongestSeen = 48;  // about 8 MiB
  absl::string_view key(word.data(), word.size());
  if (auto found = pairs_.whole_words.find(key); found != pairs_.whole_words.end())
    return tokens.push_back(found->second);
  if (word.size() > kLongestSeen) return Merge(word, tokens);
  if (auto found = seen_.find(key); found != seen_.end()) {
    tokens.insert(tokens.end(), found->second.begin(), found->second.end());
    return;
  }
  size_t begin = tokens.size();
  Merge(word, tokens);
  if (seen_.size() == kMostSeen) seen_.clear();
  seen_[key].assign(tokens.begin() + std::ptrdiff_t(begin), tokens.end());
}

void WordEncoder::Merge(std::string_view word, std::vector<int32_t>& tokens) {
  auto size = uint32_t(word.size());
  symbols_.resize(size);
  heap_.clear();
  for (uint32_t i = 0; i < size; i++)
    symbols_[i] = {pairs_.letters[uint8_t(word[i])], i == 0 ? kNone : i - 1, i + 1 == size ? kNone : i + 1, {kNone, 0}};
  for (uint32_t i = 0; i < size; i++) Rate(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    auto rank = uint32_t(heap_.back() >> 32), symbol = uint32_t(heap_.back());
    heap_.pop_back();
    if (symbols_[symbol].merge.rank == rank) MergeWithNext(symbol);  // else one of the two tokens has changed since
  }
  for (uint32_t i = 0; i < size; i = symbols_[i].next) tokens.push_back(symbols_[i].token);
}

// Finds the merge of a symbol with the next one, if there is one, and adds it to the heap.
void WordEncoder::Rate(uint32_t symbol) {
  Symbol& s = symbols_[symbol];
  s.merge.rank = kNone;
  if (s.next == kNone) return;
  auto found = pairs_.merges.find(BytePairs::KeyOf(s.token, symbols_[s.next].token));
  if (found == pairs_.merges.end()) return;
  s.merge = found->second;
  heap_.push_back(uint64_t(s.merge.rank) << 32 | symbol);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void WordEncoder::MergeWithNext(uint32_t symbol) {
  Symbol& s = symbols_[symbol];
  Symbol& gone = symbols_[s.next];
  s.token = s.merge.token;
  s.next = gone.next;
  gone.merge.rank = kNone;
  if (s.next != kNone) symbols_[s.next].previous = symbol;
  Rate(symbol);
  if (s.previous != kNone) Rate(s.previous);
}

}  // namespace weft
