#include "weft/train/data/source/token_source.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/core/base/error.h"

namespace weft {

int64_t FillRow(const TokenStream& stream, int64_t begin, int64_t vocab, BatchSpan out) {
  auto context = int64_t(out.tokens.size());
  int64_t targets = std::clamp<int64_t>(stream.size() - begin - 1, 0, context);
  auto tokens = out.tokens.first(size_t(targets)), following = out.targets.first(size_t(targets));
  uint32_t largest = std::max(stream.Read(begin, tokens), stream.Read(begin + 1, following));
  if (absl::Status s = stream.Fault(begin, begin + targets + 1); !s.ok()) Fail(std::string(s.message()));
  if (largest >= vocab)
    for (int64_t i = begin;; i++)
      if (uint32_t(stream[i]) >= vocab) Fail(TokenFault(stream, i, vocab));
  std::fill(out.tokens.begin() + targets, out.tokens.end(), 0);
  std::fill(out.targets.begin() + targets, out.targets.end(), kIgnoredTarget);
  return targets;
}

std::string TokenFault(const TokenStream& stream, int64_t i, int64_t vocab) {
  auto [file, position] = stream.PlaceOf(i);
  return fmt::format(
      "{}: expected tokens below model.vocab = {}, got {} at position {}; raise model.vocab, or give "
      "shards of the tokenizer that it is meant for",
      file, vocab, uint32_t(stream[i]), position);
}

int64_t Below(int64_t n, uint64_t bits) {
  __extension__ using Wide = unsigned __int128;
  return int64_t(Wide(bits) * Wide(n) >> 64);
}

}  // namespace weft
