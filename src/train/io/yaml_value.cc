#include "weft/train/io/yaml_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "fmt/format.h"

namespace weft {
namespace {

// Returns invalid_argument for what is no number, and result_out_of_range for a number that T does not hold.
template <class T>
std::errc ReadWhole(const YamlNode& node, T& value) {
  constexpr auto kNone = std::errc::invalid_argument;
  if (node.kind != YamlNode::kScalar || node.quoted) return kNone;
  std::string_view text = node.text;
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string_view digits = text.substr(text.starts_with('-'));
  if (digits.empty() || !(std::isdigit(uint8_t(digits[0])) || digits[0] == '.')) return kNone;
  if (digits.size() > 1 && digits[0] == '0' && std::isdigit(uint8_t(digits[1]))) return kNone;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() ? error : kNone;
}

}  // namespace

std::string Shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::kNull:
      return "nothing";
    case YamlNode::kList:
      return "a list";
    case YamlNode::kMap:
      return "a mapping";
    case YamlNode::kScalar:
      break;
  }
  constexpr size_t kLongest = 60;
  std::string text = node.text.substr(0, kLongest);
  if (node.text.size() > kLongest) text += "...";
  return fmt::format("{}{:?}", node.quoted ? "the string " : "", text);
}

bool ReadNumber(const YamlNode& node, double& value) { return ReadWhole(node, value) == std::errc(); }
bool ReadNumber(const YamlNode& node, int64_t& value) { return ReadWhole(node, value) == std::errc(); }

std::string IntegerHint(const YamlNode& node) {
  int64_t whole = 0;
  double real = 0;
  if (ReadWhole(node, whole) == std::errc::result_out_of_range) return "; integers lie between -2^63 and 2^63 - 1";
  bool is_whole = ReadNumber(node, real) && real == std::floor(real) && std::fabs(real) < 1e15;
  return is_whole ? fmt::format("; write {}", int64_t(real)) : "";
}

std::string RealHint(const YamlNode& node) {
  double real = 0;
  bool beyond = ReadWhole(node, real) == std::errc::result_out_of_range;
  return beyond ? "; numbers are 0 or lie between 4.9e-324 and 1.8e308" : "";
}

bool IsChoice(const std::vector<std::string>& choices, const std::string& text) {
  for (const std::string& choice : choices) {
    if (text == choice ? !choice.ends_with(':') : choice.ends_with(':') && text.starts_with(choice)) return true;
  }
  return choices.empty();
}

bool IsOfHome(const YamlNode& node) { return node.text.starts_with("~/"); }
std::string HomeHint(const YamlNode& node) {
  return fmt::format("; ~ is not replaced here: write $HOME{}", node.text.substr(1));
}

std::string Quoted(const std::string& text) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  bool plain = std::isalpha(uint8_t(text[0])) || text[0] == '/' || text[0] == '_';
  plain = plain && text.find_first_not_of(kPlain) == text.npos && text != "null" && text != "true" && text != "false";
  if (plain) return text;
  std::string quoted = "\"";
  for (char ch : text) {
    if (ch == '"' || ch == '\\') quoted += '\\';
    quoted += uint8_t(ch) < 0x20 ? fmt::format("\\x{:02x}", uint8_t(ch)) : std::string(1, ch);
  }
  return quoted + '"';
}

}  // namespace weft
