#include "weft/train/config/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/unknown_key.h"

namespace weft {
namespace {

// An argument split into option and value: "tokens" and "50".
struct Assignment {
  const Option* option = nullptr;
  std::string value;
  bool has_value = false, flag = false;
};

Assignment Parse(std::span<const Option> options, const std::string& word) {
  Assignment a{.flag = word.starts_with("--")};
  size_t begin = a.flag ? 2 : 0, equals = word.find('=');
  std::string key = word.substr(begin, equals == word.npos ? word.npos : equals - begin);
  a.has_value = equals != word.npos;
  if (!a.flag && !a.has_value) return a;
  auto found = std::find_if(options.begin(), options.end(), [&](const Option& o) { return key == o.field.key; });
  if (found == options.end() || (!a.flag && found->form == Option::kFlag)) return a;
  a.option = &*found;
  if (a.has_value) a.value = word.substr(equals + 1);
  return a;
}

absl::Status Set(const Assignment& a) {
  const Field& field = a.option->field;
  if (a.option->form == Option::kVerbatim) {
    if (auto* list = std::get_if<PathList*>(&a.option->ref))
      (*list)->push_back(a.value);
    else
      *std::get<std::string*>(a.option->ref) = a.value;
    return absl::OkStatus();
  }
  absl::StatusOr<YamlNode> node = WordValue(field.key, a.value);
  if (!node.ok()) return node.status();
  if (std::optional<ValueFault> fault = SetValue(field, a.option->ref, *node))
    return absl::InvalidArgumentError(fmt::format("{}{}: {}", kCommandLine, field.key, fault->what));
  return absl::OkStatus();
}

// Returns the key of "key=value" or "--key", or "" if the word is something else, such as a path.
std::string KeyOf(const std::string& word) {
  bool flag = word.starts_with("--");
  size_t begin = flag ? 2 : 0, equals = word.find('=');
  if (!flag && equals == word.npos) return "";
  std::string key = word.substr(begin, equals == word.npos ? word.npos : equals - begin);
  bool letters =
      std::all_of(key.begin(), key.end(), [](char ch) { return absl::ascii_isalpha(uint8_t(ch)) || ch == '_'; });
  return letters ? key : "";
}

// An option comes before a config key that is as near, because the command's own options are fewer.
absl::Status CheckSpelling(std::span<const Option> options, const std::string& word) {
  std::string key = KeyOf(word);
  if (key.empty() || FindField(key) || IsSection(key)) return absl::OkStatus();
  std::vector<std::string> choices;
  for (const Option& option : options) choices.emplace_back(option.field.key);
  const size_t own = choices.size();
  for (const Field& field : Schema()) choices.emplace_back(LastPart(field.key));
  auto nearest = std::find(choices.begin(), choices.end(), Nearest(key, choices)) - choices.begin();
  if (size_t(nearest) >= own) return absl::OkStatus();
  const Option& meant = options[size_t(nearest)];
  bool flag = word.starts_with("--") || meant.form == Option::kFlag;
  return absl::InvalidArgumentError(
      fmt::format("{}{}: unknown argument; did you mean {}{}?", kCommandLine, key, flag ? "--" : "", meant.field.key));
}

}  // namespace

bool SetsKey(const std::string& word) {
  size_t equals = word.find('=');
  return equals != word.npos && word.find('/') >= equals;
}

absl::StatusOr<std::set<std::string>> TakeOptions(std::span<const Option> options, std::vector<std::string>& words) {
  std::vector<std::string> rest;
  std::set<std::string> given;
  for (size_t i = 0; i < words.size(); i++) {
    Assignment a = Parse(options, words[i]);
    if (!a.option) {
      rest.push_back(words[i]);
      continue;
    }
    bool is_switch = std::holds_alternative<bool*>(a.option->ref);
    if (!a.has_value && is_switch) a.value = "true";
    if (!a.has_value && !is_switch && i + 1 == words.size())
      return absl::InvalidArgumentError(fmt::format("{}--{}: expected {} after it, got nothing", kCommandLine,
                                                    a.option->field.key, TypeText(a.option->field, a.option->ref)));
    if (!a.has_value && !is_switch) a.value = words[++i];
    if (absl::Status s = Set(a); !s.ok()) return s;
    given.insert(a.option->field.key);
  }
  for (const std::string& word : rest)
    if (absl::Status s = CheckSpelling(options, word); !s.ok()) return s;
  words = std::move(rest);
  return given;
}

}  // namespace weft
