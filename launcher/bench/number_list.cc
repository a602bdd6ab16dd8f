#include "launcher/bench/number_list.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/config/config.h"
#include "weft/train/io/yaml_value.h"

namespace weft {
namespace {

constexpr int64_t kMaxCount = int64_t(1) << 24, kMaxBytes = int64_t(1) << 40;

absl::Status Expected(const std::string& key, const std::string& what, const std::string& got) {
  return absl::InvalidArgumentError(fmt::format("{}{}: expected {}, got {:?}", kCommandLine, key, what, got));
}

std::vector<std::string> Items(const std::string& text) { return absl::StrSplit(text, ','); }

// Returns the bytes of a size such as "64M", or nullopt if the text is not a size.
std::optional<int64_t> ByteSize(std::string text) {
  int64_t unit = 1, number = 0;
  constexpr std::string_view kUnits = "KMG";
  if (size_t at = text.empty() ? kUnits.npos : kUnits.find(text.back()); at != kUnits.npos) {
    unit = int64_t(1) << (10 * (at + 1));
    text.pop_back();
  }
  if (!absl::SimpleAtoi(text, &number) || number < 1 || number > kMaxBytes / unit) return std::nullopt;
  return number * unit;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseCounts(const std::string& key, const std::string& text) {
  std::vector<int64_t> counts;
  for (const std::string& item : Items(text)) {
    int64_t count = 0;
    if (!absl::SimpleAtoi(item, &count) || count < 1 || count > kMaxCount)
      return Expected(key, fmt::format("integers >= 1 and <= {}, with commas between them", kMaxCount), text);
    counts.push_back(count);
  }
  return counts;
}

absl::StatusOr<std::vector<int64_t>> ParseBytes(const std::string& key, const std::string& text, int64_t factor) {
  const char* kWhat = "sizes such as 4K,1M or a range such as 1M..64M, of at most 1024G";
  std::vector<int64_t> sizes;
  for (const std::string& item : Items(text)) {
    std::vector<std::string> ends = absl::StrSplit(item, "..");
    std::optional<int64_t> low = ByteSize(ends.front()), high = ByteSize(ends.back());
    if (ends.size() > 2 || !low || !high || *low > *high) return Expected(key, kWhat, text);
    for (int64_t size = *low; size <= *high; size *= factor) sizes.push_back(size);
  }
  return sizes;
}

absl::StatusOr<std::vector<std::string>> ParseNames(const std::string& key, const std::string& text,
                                                    const std::vector<std::string>& choices) {
  std::vector<std::string> names = Items(text);
  for (const std::string& name : names)
    if (std::find(choices.begin(), choices.end(), name) == choices.end())
      return absl::InvalidArgumentError(fmt::format("{}{}: expected names of {}, got {:?}{}", kCommandLine, key,
                                                    fmt::join(choices, ", "), name, DidYouMean(name, choices)));
  return names;
}

absl::StatusOr<std::vector<std::vector<int64_t>>> ParseAligned(std::span<const KeyText> lists) {
  std::vector<std::vector<int64_t>> all;
  size_t longest = 0;
  for (const KeyText& list : lists) {
    absl::StatusOr<std::vector<int64_t>> counts = ParseCounts(list.key, list.text);
    if (!counts.ok()) return counts.status();
    all.push_back(*std::move(counts));
    if (all.back().size() > all[longest].size()) longest = all.size() - 1;
  }
  size_t length = all[longest].size();
  for (size_t i = 0; i < all.size(); i++) {
    if (all[i].size() == 1) all[i].resize(length, all[i].front());
    if (all[i].size() != length)
      return Expected(lists[i].key, fmt::format("1 or {} numbers, as {} has", length, lists[longest].key),
                      lists[i].text);
  }
  return all;
}

}  // namespace weft
