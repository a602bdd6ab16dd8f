#include "weft/train/data/pairs.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/train/data/documents.h"

namespace weft {
namespace {

absl::Status TooLong(const char* what, size_t tokens, int64_t most) {
  return absl::OutOfRangeError(fmt::format("expected a {} of at most {} tokens, got {}", what, most, tokens));
}
absl::Status OfPair(size_t pair, const absl::Status& fault, const char* key) {
  if (!absl::IsOutOfRange(fault)) return fault;
  return absl::OutOfRangeError(fmt::format("pair {}: {}; raise {}", pair + 1, std::string(fault.message()), key));
}

absl::StatusOr<std::vector<int32_t>> EncodeTarget(const Tokenizer& tokenizer, std::string_view target,
                                                  const PairLayout& layout) {
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(target);
  if (!tokens.ok()) return tokens;
  int64_t most = layout.context - layout.source - 1;
  if (int64_t(tokens->size()) > most) return TooLong("target", tokens->size(), most);
  tokens->push_back(layout.end);
  return tokens;
}

}  // namespace

int64_t SourceContext(const ModelConfig& model) {
  auto own = model.own_integers.find("source_context");
  return own == model.own_integers.end() || own->second == 0 ? model.context / 2 : own->second;
}

PairLayout PairLayoutOf(const ModelConfig& model, int64_t kinds, std::optional<int32_t> end) {
  auto next = int32_t(kinds);
  return {SourceContext(model), model.context, end.value_or(next), end ? next : next + 1};
}

absl::StatusOr<std::vector<int32_t>> EncodeSource(const Tokenizer& tokenizer, std::string_view source,
                                                  const PairLayout& layout) {
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(source);
  if (!tokens.ok()) return tokens;
  if (int64_t(tokens->size()) >= layout.source) return TooLong("source", tokens->size(), layout.source - 1);
  tokens->push_back(layout.end);
  tokens->resize(size_t(layout.source) + 1, layout.pad);
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> EncodePairs(const Tokenizer& tokenizer, const Documents& documents,
                                                 const PairLayout& layout) {
  std::vector<int32_t> all(documents.begins.size() * size_t(layout.size()), layout.pad);
  for (size_t d = 0; d < documents.begins.size(); d++) {
    size_t begin = documents.begins[d],
           end = d + 1 < documents.begins.size() ? documents.begins[d + 1] : documents.text.size();
    std::string_view pair = std::string_view(documents.text).substr(begin, end - begin);
    size_t middle = pair.find(kPairSeparator);
    if (middle == pair.npos)
      return absl::OutOfRangeError("expected JSONL with a source and a target in each record, got a text without");
    absl::StatusOr<std::vector<int32_t>> source = EncodeSource(tokenizer, pair.substr(0, middle), layout),
                                         target = EncodeTarget(tokenizer, pair.substr(middle + 1), layout);
    if (!source.ok()) return OfPair(d, source.status(), "model.source_context");
    if (!target.ok()) return OfPair(d, target.status(), "model.context");
    auto row = all.begin() + std::ptrdiff_t(d * size_t(layout.size()));
    std::copy(source->begin(), source->end(), row);
    std::copy(target->begin(), target->end(), row + layout.source + 1);
  }
  return all;
}

int64_t KeepTargets(const PairLayout& layout, std::span<int32_t> targets) {
  int64_t kept = 0;
  for (size_t t = 0; t < targets.size(); t++) {
    bool keeps = int64_t(t) >= layout.source && targets[t] != layout.pad && targets[t] != kIgnoredTarget;
    if (!keeps) targets[t] = kIgnoredTarget;
    kept += keeps;
  }
  return kept;
}

}  // namespace weft
