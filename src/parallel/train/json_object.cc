#include "parallel/train/json_object.h"

#include <set>
#include <stdexcept>
#include <vector>

#include "fmt/format.h"
#include "parallel/train/mapped_file.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::string Shortened(const std::string& text, size_t longest) {
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

absl::Status Bad(const std::string& path, const std::string& got) {
  return absl::InvalidArgumentError(
      fmt::format("{}: expected a JSON object, got {}; copy or make the file again", path, got));
}

}  // namespace

std::string Shown(const Json& value) { return Shortened(value.dump(), 80); }

absl::StatusOr<Json> ParseJsonObject(std::span<const std::byte> text, const std::string& path) {
  constexpr int kDeepest = 8;
  // What is read takes more memory than its text: 16 bytes a value, twice that in a list that grows.
  const size_t most_values = 64 + text.size() / 4;
  size_t values = 0;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) throw std::invalid_argument("it is nested too deeply");
    bool ends = event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end;
    bool counts = ends || event == Json::parse_event_t::value;
    if (counts && ++values > most_values) throw std::invalid_argument("it is all numbers and brackets");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw std::invalid_argument(fmt::format("the key {} is there twice", Shown(parsed)));
    return true;
  };
  const char* begin = reinterpret_cast<const char*>(text.data());
  try {
    Json json = Json::parse(begin, begin + text.size(), check);
    if (json.is_object()) return json;
    return Bad(path, Shown(json));
  } catch (const std::exception& e) {
    return Bad(path, fmt::format("something else ({})", Shortened(e.what(), 200)));
  }
}

absl::StatusOr<Json> ReadJsonObject(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return ParseJsonObject((*file)->bytes(), path);
}

}  // namespace weft
