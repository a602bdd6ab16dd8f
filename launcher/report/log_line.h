// LogLine: a line of a log of JSON lines, read back as the record that JsonLine wrote.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "weft/train/log/metrics.h"

namespace weft {

// `place` stands for the line in errors ("run.jsonl:12"). null: a number that is not known, or NaN where there must be
// one. What StartRecord holds for people alone stays empty. Nothing: an event of another version, which has no record.
absl::StatusOr<std::optional<LogRecord>> ParseLogLine(std::string_view line, const std::string& place);

}  // namespace weft
