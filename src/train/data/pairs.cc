#include "weft/train/data/pairs.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/train/data/documents.h"

namespace weft {
namespace {

absl::Status TooLong(size_t pair, const char* what, size_t tokens, int64_t most, const char* key) {
  return absl::OutOfRangeError(
      fmt::format("pair {}: expected a {} of at most {} tokens, got {}; raise {}", pair + 1, what, most, tokens, key));
}

}  // namespace

PairLayout PairLayoutOf(const ModelConfig& model, int64_t kinds, std::optional<int32_t> end) {
  auto own = model.own_integers.find("source_context");
  int64_t source = own == model.own_integers.end() || own->second == 0 ? model.context / 2 : own->second;
  auto next = int32_t(kinds);
  return {source, model.context, end.value_or(next), end ? next : next + 1};
}

absl::StatusOr<std::vector<int32_t>> EncodePairs(const Tokenizer& tokenizer, const Documents& documents,
                                                 const PairLayout& layout) {
  std::vector<int32_t> all(documents.begins.size() * size_t(layout.size()), layout.pad);
  int64_t target_context = layout.context - layout.source;
  for (size_t d = 0; d < documents.begins.size(); d++) {
    size_t begin = documents.begins[d],
           end = d + 1 < documents.begins.size() ? documents.begins[d + 1] : documents.text.size();
    std::string_view pair = std::string_view(documents.text).substr(begin, end - begin);
    size_t middle = pair.find(kPairSeparator);
    if (middle == pair.npos)
      return absl::OutOfRangeError("expected JSONL with a source and a target in each record, got a text without");
    absl::StatusOr<std::vector<int32_t>> source = tokenizer.Encode(pair.substr(0, middle)),
                                         target = tokenizer.Encode(pair.substr(middle + 1));
    for (const auto& text : {source, target})
      if (!text.ok()) return text.status();
    if (int64_t(source->size()) >= layout.source)
      return TooLong(d, "source", source->size(), layout.source - 1, "model.source_context");
    if (int64_t(target->size()) >= target_context)
      return TooLong(d, "target", target->size(), target_context - 1, "model.context");
    source->push_back(layout.end);
    target->push_back(layout.end);
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
