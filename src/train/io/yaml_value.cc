#include "weft/train/io/yaml_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "fmt/format.h"

namespace weft {
namespace {

template <class T>
bool ReadWhole(const YamlNode& node, T& value) {
  if (node.kind != YamlNode::kScalar || node.quoted) return false;
  std::string_view text = node.text;
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string_view digits = text.substr(text.starts_with('-'));
  if (digits.empty() || !(std::isdigit(uint8_t(digits[0])) || digits[0] == '.')) return false;
  if (digits.size() > 1 && digits[0] == '0' && std::isdigit(uint8_t(digits[1]))) return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
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

bool ReadNumber(const YamlNode& node, double& value) { return ReadWhole(node, value); }
bool ReadNumber(const YamlNode& node, int64_t& value) { return ReadWhole(node, value); }

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
