#include "weft/core/host/suggest.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"

namespace weft {
namespace {

// A third of the letters may be wrong, and at least one.
bool IsNear(int distance, size_t length) { return distance <= std::max(1, int(length) / 3); }

std::string_view Section(std::string_view key) {
  return key.find('.') == key.npos ? std::string_view() : key.substr(0, key.rfind('.'));
}

// Names that other tools use.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"gpu", "cuda"},      {"nvidia", "cuda"},      {"host", "cpu"},     {"float64", "f64"}, {"double", "f64"},
    {"float32", "f32"},   {"float", "f32"},        {"single", "f32"},   {"float16", "f16"}, {"half", "f16"},
    {"fp16", "f16"},      {"bfloat16", "bf16"},    {"yes", "true"},     {"on", "true"},     {"1", "true"},
    {"no", "false"},      {"off", "false"},        {"0", "false"},      {"gpt", "gpt2"},    {"gptneox", "neox"},
    {"gpt_neox", "neox"}, {"characters", "chars"}, {"jit", "compiled"}, {"zero3", "full"},  {"zero2", "gradients"},
    {"cos", "cosine"},
};

}  // namespace

std::string_view LastPart(std::string_view key) { return key.substr(key.rfind('.') + 1); }

int EditDistance(std::string_view a, std::string_view b) {
  // A rolling table of rows i - 2, i - 1 and i.
  size_t width = b.size() + 1;
  std::vector<int> rows(3 * width);
  auto d = [&](size_t i, size_t j) -> int& { return rows[i % 3 * width + j]; };
  auto same = [&](size_t i, size_t j) { return std::tolower(uint8_t(a[i])) == std::tolower(uint8_t(b[j])); };
  for (size_t i = 0; i <= a.size(); i++) {
    for (size_t j = 0; j <= b.size(); j++) {
      if (i == 0 || j == 0) {
        d(i, j) = int(i + j);
        continue;
      }
      d(i, j) = std::min({d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + !same(i - 1, j - 1)});
      bool swapped = i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1);
      if (swapped) d(i, j) = std::min(d(i, j), d(i - 2, j - 2) + 1);
    }
  }
  return d(a.size(), b.size());
}

std::string Nearest(std::string_view word, const std::vector<std::string>& choices) {
  std::string nearest;
  int least = 1 << 20;
  for (const std::string& choice : choices) {
    bool begins = word.size() >= 3 && choice.starts_with(word);  // "warmup" for "warmup_steps"
    auto longer = std::max(word.size(), choice.size()), shorter = std::min(word.size(), choice.size());
    if (!begins && !IsNear(int(longer - shorter), word.size()))
      continue;  // the difference in length is a lower bound of the distance
    int distance = EditDistance(word, choice);
    if (begins) distance = std::min(distance, 1);
    if (distance < least && (IsNear(distance, word.size()) || begins)) {
      least = distance;
      nearest = choice;
    }
  }
  return nearest;
}

std::string DidYouMean(const std::string& text, const std::vector<std::string>& choices) {
  std::string nearest, small = absl::AsciiStrToLower(text);
  for (auto [other, name] : kOtherNames)
    if (other == small && std::count(choices.begin(), choices.end(), name) > 0) nearest = name;
  if (nearest.empty()) nearest = Nearest(text, choices);
  if (nearest.ends_with(':')) nearest += "PATH";
  return nearest.empty() ? "" : fmt::format("; did you mean {:?}?", nearest);
}

std::string NearestKey(std::string_view key, const std::vector<std::string>& keys) {
  std::vector<std::string> siblings, last_parts;
  for (const std::string& candidate : keys) {
    last_parts.emplace_back(LastPart(candidate));
    if (Section(candidate) == Section(key)) siblings.push_back(last_parts.back());
  }
  std::string prefix = Section(key).empty() ? "" : std::string(Section(key)) + ".";
  for (const std::string& sibling : siblings)
    if (!prefix.empty() && LastPart(key).size() >= 3 && sibling.starts_with(LastPart(key))) return prefix + sibling;
  for (const std::string& candidate : keys) {  // right key, wrong section
    if (candidate != LastPart(candidate) && LastPart(candidate) == LastPart(key)) return candidate;
  }
  std::vector<std::string> others = keys;
  // A section is not a suggestion for its own key.
  if (Section(key).find('.') == key.npos) std::erase(others, Section(key));
  if (std::string sibling = Nearest(LastPart(key), siblings); !sibling.empty()) return prefix + sibling;
  if (std::string whole = Nearest(key, others); !whole.empty()) return whole;
  std::string part = Nearest(LastPart(key), last_parts);
  for (const std::string& candidate : keys) {
    if (!part.empty() && LastPart(candidate) == part) return candidate;
  }
  return "";
}

std::string ExpectedOneOf(const std::vector<std::string>& choices, std::string_view got) {
  return fmt::format("expected one of {}, got {:?}{}", absl::StrJoin(choices, ", "), got,
                     DidYouMean(std::string(got), choices));
}

std::string FirstFew(const std::vector<std::string>& names, size_t most) {
  if (names.size() <= most) return absl::StrJoin(names, ", ");
  return absl::StrCat(absl::StrJoin(names.begin(), names.begin() + ptrdiff_t(most), ", "), " and ", names.size() - most,
                      " more");
}

}  // namespace weft
