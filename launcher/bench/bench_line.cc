#include "launcher/bench/bench_line.h"

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "weft_commit.h"

namespace weft {
namespace {

template <class T>
nlohmann::ordered_json ObjectOf(const std::vector<std::pair<std::string, T>>& entries) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : entries) object[key] = value;
  return object;
}

// Formats a number with four significant digits. From 1000 up to 10 million it shows all digits before the point.
std::string Number(double value) {
  return value >= 1e3 && value < 1e7 ? fmt::format("{:.0f}", value) : fmt::format("{:#.4g}", value);
}

}  // namespace

std::string BenchJson(const BenchLine& line, const BenchPlace& place) {
  nlohmann::ordered_json json = {{"kind", line.kind},
                                 {"case", line.name},
                                 {"device", place.device},
                                 {"device_name", place.device_name},
                                 {"ranks", place.ranks},
                                 {"threads", place.threads},
                                 {"dtype", line.dtype},
                                 {"labels", ObjectOf(line.labels)},
                                 {"sizes", ObjectOf(line.sizes)},
                                 {"median_ms", line.times.Median()},
                                 {"min_ms", line.times.Min()},
                                 {"p90_ms", line.times.P90()},
                                 {"repeats", line.times.ms.size()},
                                 {"calls", line.times.calls},
                                 {"processor_ms", line.times.processor_ms},
                                 {"rate", nullptr},
                                 {"unit", line.unit},
                                 {"more", ObjectOf(line.more)},
                                 {"host", place.host},
                                 {"version", WEFT_VERSION},
                                 {"commit", kCommit},
                                 {"unix_time", int64_t(std::time(nullptr))}};
  if (line.rate) json["rate"] = *line.rate;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string BenchHead(const BenchPlace& place) {
  return fmt::format(
      "weft {} ({}), {} rank{} on {}, {} thread{} per rank, host {}\n{:<44} {:>5} {:>10} {:>10} {:>10} {:>7}  {}\n",
      WEFT_VERSION, kCommit, place.ranks, place.ranks == 1 ? "" : "s", place.device_name, place.threads,
      place.threads == 1 ? "" : "s", place.host, "case", "dtype", "median ms", "min ms", "p90 ms", "repeats",
      "rate of a rank");
}

std::string BenchRow(const BenchLine& line) {
  const CallTimes& t = line.times;
  std::string rate = line.rate ? fmt::format("{} {}", Number(*line.rate), line.unit) : "-";
  std::string text = fmt::format("{:<44} {:>5} {:>10} {:>10} {:>10} {:>7}  {}", line.kind + " " + line.name, line.dtype,
                                 Number(t.Median()), Number(t.Min()), Number(t.P90()), t.ms.size(), rate);
  for (const auto& [name, value] : line.more) text += fmt::format(", {}: {}", name, value == 0 ? "0" : Number(value));
  return text + "\n";
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "CPU";
}

}  // namespace weft
