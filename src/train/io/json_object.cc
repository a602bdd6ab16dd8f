#include "weft/train/io/json_object.h"

#include <cstddef>
#include <iterator>
#include <set>
#include <stdexcept>
#include <vector>

#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "weft/train/io/mapped_file.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostBytes = 100'000'000;  // the limit that safetensors sets for its header

std::string Shortened(const std::string& text, size_t longest) {
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

absl::Status Bad(const std::string& path, const std::string& got) {
  return absl::InvalidArgumentError(
      fmt::format("{}: expected a JSON object, got {}; copy or make the file again", path, got));
}

// Checks the text before anything is built from it. A callback of the library's parser could do these checks, but then
// the parser rescans the whole enclosing list or object each time an object in it ends.
class Checker final : public nlohmann::json_sax<Json> {
 public:
  // A parsed value takes more memory than its text: 16 bytes, and twice that in a growing list.
  explicit Checker(size_t bytes) : most_values_(64 + bytes / 4) {}

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }
  bool start_object(size_t) override { return Begin(); }
  bool end_object() override { return End(); }
  bool start_array(size_t) override { return Begin(); }
  bool end_array() override { return End(); }
  bool key(string_t& name) override {
    CheckDepth();
    if (keys_.back().insert(name).second) return true;
    throw std::invalid_argument(fmt::format("the key {} is there twice", Shown(name)));
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    throw std::invalid_argument(FaultOf(error));
  }

 private:
  static constexpr size_t kDeepest = 8;
  void CheckDepth() const {
    if (keys_.size() > kDeepest) throw std::invalid_argument("it is nested too deeply");
  }
  bool Count() {
    if (++values_ > most_values_) throw std::invalid_argument("it is all numbers and brackets");
    return true;
  }
  bool Value() {
    CheckDepth();
    return Count();
  }
  bool Begin() {
    CheckDepth();
    keys_.emplace_back();
    return true;
  }
  bool End() {
    keys_.pop_back();
    return Count();
  }

  const size_t most_values_;
  size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // one set of keys per open object or list; empty for a list
};

// Presents the text with tabs and line ends between values as spaces. An error message of the library repeats
// everything read since the last value, and prints each tab or line end as eight characters. The first line end after a
// value stays, because the library counts lines.
class SpacedText {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit SpacedText(const char* at) : at_(at) {}
  bool operator==(const SpacedText& other) const { return at_ == other.at_; }
  char operator*() const {
    if (in_string_) return *at_;
    bool space = *at_ == '\t' || *at_ == '\r' || (*at_ == '\n' && after_space_);
    return space ? ' ' : *at_;
  }
  SpacedText& operator++() {
    char ch = *at_++;
    if (ch == '"' && !escaped_) in_string_ = !in_string_;
    escaped_ = in_string_ && ch == '\\' && !escaped_;
    if (ch != '\r') after_space_ = ch == ' ' || ch == '\t' || ch == '\n';
    return *this;
  }

 private:
  const char* at_;
  bool in_string_ = false, escaped_ = false, after_space_ = false;
};

}  // namespace

std::string FaultOf(const Json::exception& error) {
  std::string_view what = error.what();
  size_t id_end = what.find("] ");
  return std::string(id_end == what.npos ? what : what.substr(id_end + 2));
}

std::string Shown(const Json& value) { return Shortened(value.dump(), 80); }

absl::Status CheckJson(std::span<const std::byte> text, const std::string& path) {
  const char* begin = reinterpret_cast<const char*>(text.data());
  try {
    Checker checker(text.size());
    Json::sax_parse(SpacedText(begin), SpacedText(begin + text.size()), &checker);
    return absl::OkStatus();
  } catch (const std::exception& e) {
    std::string fault = e.what();
    // A text of one line may be a line of a file, whose number the path has.
    bool one_line = std::string_view(begin, text.size()).find('\n') == std::string_view::npos;
    if (one_line) fault = absl::StrReplaceAll(fault, {{"at line 1, column", "at column"}});
    return Bad(path, fmt::format("something else ({})", Shortened(fault, 200)));
  }
}

absl::StatusOr<Json> ParseJsonObject(std::span<const std::byte> text, const std::string& path) {
  if (absl::Status status = CheckJson(text, path); !status.ok()) return status;
  const char* begin = reinterpret_cast<const char*>(text.data());
  try {
    Json json = Json::parse(begin, begin + text.size());
    if (json.is_object()) return json;
    return Bad(path, Shown(json));
  } catch (const std::exception& e) {
    return Bad(path, fmt::format("something else ({})", Shortened(e.what(), 200)));
  }
}

absl::StatusOr<Json> ReadJsonObject(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path, MappedFile::kInOrder, kMostBytes);
  if (!file.ok()) return file.status();
  absl::StatusOr<Json> json = ParseJsonObject((*file)->bytes(), path);
  if (absl::Status s = (*file)->Fault(); !s.ok()) return s;
  return json;
}

}  // namespace weft
