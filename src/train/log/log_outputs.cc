#include "weft/train/log/log_outputs.h"

#include "weft/train/log/csv_log.h"
#include "weft/train/log/event_log.h"
#include "weft/train/log/json_log.h"

namespace weft {
namespace {

constexpr LogOutput kOutputs[] = {
    {"log.jsonl", &LogConfig::jsonl, "log", "JSON lines", JsonLog::kStart,
     [](const std::string& path, int64_t) -> absl::StatusOr<std::unique_ptr<LogSink>> { return JsonLog::Open(path); }},
    {"log.csv", &LogConfig::csv, "table", "comma-separated lines", CsvLog::kStart,
     [](const std::string& path, int64_t) -> absl::StatusOr<std::unique_ptr<LogSink>> { return CsvLog::Open(path); }},
    {"log.tensorboard", &LogConfig::tensorboard, "events", nullptr, nullptr,
     [](const std::string& path, int64_t start_step) -> absl::StatusOr<std::unique_ptr<LogSink>> {
       return EventLog::Open(path, start_step);
     }},
};

}  // namespace

std::span<const LogOutput> LogOutputs() { return kOutputs; }

}  // namespace weft
