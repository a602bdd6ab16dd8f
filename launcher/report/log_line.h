// LogLine: parses a line of a log into the record from which JsonLine made it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "weft/train/log/metrics.h"

namespace weft {

// `place` is the name of the line in errors ("run.jsonl:12"). Returns nullopt for an event that reports do not use,
// such as a note, and for an unknown event of another version. A number that is null is unknown, or NaN if the record
// requires a number. The members of StartRecord that are for the terminal only stay empty.
absl::StatusOr<std::optional<LogRecord>> ParseLogLine(std::string_view line, const std::string& place);

}  // namespace weft
