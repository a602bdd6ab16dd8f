// The parts of a tokenizer.json, which are objects with a type, and what is said of one that Weft does not have.
#pragma once
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// InvalidArgument, of a file that is wrong; Unimplemented, of a good one of another kind.
absl::Status BadPart(const std::string& what);
absl::Status UnknownPart(std::string_view part, std::string_view expected, const std::string& got);

// Returns null where there is no such key, or no object.
const nlohmann::json& PartOf(const nlohmann::json& object, const char* key);
// What a part calls itself, else the part, as an error shows it.
std::string TypeOf(const nlohmann::json& part);
bool IsType(const nlohmann::json& part, const char* type);
// Refuses other keys than the known ones, as they may change the tokens.
absl::Status CheckPartKeys(std::string_view part, const nlohmann::json& object,
                           std::initializer_list<std::string_view> known);
// `absent` is for a key that is not there, or null; without it the key is required.
absl::StatusOr<bool> FlagOf(std::string_view part, const nlohmann::json& object, const char* key,
                            std::optional<bool> absent = {});

}  // namespace weft
