// Helpers for the parts of a tokenizer.json, which are objects with a type, and errors about unsupported parts.
#pragma once
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// BadPart returns InvalidArgument, for a malformed file. UnknownPart returns Unimplemented, for a valid file of an
// unsupported kind.
absl::Status BadPart(const std::string& what);
absl::Status UnknownPart(std::string_view part, std::string_view expected, const std::string& got);

// Returns null if `object` has no such key or is not an object.
const nlohmann::json& PartOf(const nlohmann::json& object, const char* key);
// Formats the type of a part for an error message, or the part itself if it has no type.
std::string TypeOf(const nlohmann::json& part);
bool IsType(const nlohmann::json& part, const char* type);
// Returns an error for any key other than the known ones, because it may change the tokens.
absl::Status CheckPartKeys(std::string_view part, const nlohmann::json& object,
                           std::initializer_list<std::string_view> known);
// `absent` is the result if the key is missing or null. Without it the key is required.
absl::StatusOr<bool> FlagOf(std::string_view part, const nlohmann::json& object, const char* key,
                            std::optional<bool> absent = {});

}  // namespace weft
