#include "weft/train/tokenizer/tokenizer_parts.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/io/json_object.h"

namespace weft {

using Json = nlohmann::json;

absl::Status BadPart(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status UnknownPart(std::string_view part, std::string_view expected, const std::string& got) {
  return absl::UnimplementedError(fmt::format(
      "{}: expected {}, got {}; weft reads byte-level BPE, as GPT-2 and Llama 3 have it", part, expected, got));
}

const Json& PartOf(const Json& object, const char* key) {
  static const Json null;
  auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::string TypeOf(const Json& part) { return Shown(part.is_object() && part.contains("type") ? part["type"] : part); }

bool IsType(const Json& part, const char* type) { return part.is_object() && PartOf(part, "type") == type; }

absl::Status CheckPartKeys(std::string_view part, const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end())
      return UnknownPart(part, fmt::format("the keys {}", fmt::join(known, ", ")), Shown(key));
  return absl::OkStatus();
}

absl::StatusOr<bool> FlagOf(std::string_view part, const Json& object, const char* key, std::optional<bool> absent) {
  const Json& flag = PartOf(object, key);
  if (flag.is_boolean()) return flag.get<bool>();
  if (flag.is_null() && absent) return *absent;
  return BadPart(fmt::format("{}.{}: expected true or false, got {}", part, key, Shown(flag)));
}

}  // namespace weft
