#include "weft/core/runtime/backend_times.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "weft/core/base/error.h"

namespace weft {
namespace {

std::string KeyOf(std::string_view call, std::string_view backend) { return fmt::format("{}\t{}", call, backend); }

}  // namespace

std::optional<double> MicrosecondsOf(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool good = error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0;
  return good ? std::optional(value) : std::nullopt;
}

void BackendTimes::Set(std::string_view call, std::string_view backend, double microseconds) {
  times_[KeyOf(call, backend)] = microseconds;
}

std::optional<double> BackendTimes::Find(std::string_view call, std::string_view backend) const {
  auto at = times_.find(KeyOf(call, backend));
  return at == times_.end() ? std::nullopt : std::optional(at->second);
}

std::string BackendTimes::Text() const {
  std::string text;
  for (const auto& [key, microseconds] : times_) text += fmt::format("{}\t{}\n", key, microseconds);
  return text;
}

void BackendTimes::Add(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    size_t tab = line.rfind('\t');
    std::optional<double> microseconds;
    if (tab != std::string_view::npos && line.size() < text.size()) microseconds = MicrosecondsOf(line.substr(tab + 1));
    WEFT_CHECK(microseconds, fmt::format("times of backends: expected lines of CALL, BACKEND and microseconds, got "
                                         "\"{}\"; do all ranks run the same build?",
                                         line));
    times_[std::string(line.substr(0, tab))] = *microseconds;
    text.remove_prefix(line.size() + 1);
  }
}

}  // namespace weft
