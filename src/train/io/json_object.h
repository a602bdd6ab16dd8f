// JSON of files that others wrote: one object, without duplicate keys.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace weft {

// Errors name the path and what is wrong. nlohmann-json alone would keep the last of duplicate keys.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::span<const std::byte> text, const std::string& path);
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

// The first half of ParseJsonObject: whether the text is JSON without duplicate keys, not too deep and, for its size,
// with no more values than JSON that says something. Makes nothing of it.
absl::Status CheckJson(std::span<const std::byte> text, const std::string& path);

// A value as an error shows it: on one line, its beginning if it is long.
std::string Shown(const nlohmann::json& value);

}  // namespace weft
