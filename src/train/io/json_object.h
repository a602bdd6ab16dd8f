// Reads JSON files from other programs: one object, without duplicate keys.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace weft {

// Errors name the path and the fault. nlohmann-json by itself would keep the last of duplicate keys.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::span<const std::byte> text, const std::string& path);
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

// Checks the text without building values; ParseJsonObject does this first. Returns OK if the text is JSON without
// duplicate keys, is not nested too deeply, and does not have far more values than real JSON of its size has.
absl::Status CheckJson(std::span<const std::byte> text, const std::string& path);

// Returns the error's text without the id that the library puts first.
std::string FaultOf(const nlohmann::json::exception& error);

// Formats a value for an error message: on one line, truncated if it is long.
std::string Shown(const nlohmann::json& value);

}  // namespace weft
