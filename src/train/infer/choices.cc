#include "weft/train/infer/choices.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "fmt/format.h"
#include "weft/train/io/bad_input.h"
#include "weft/train/io/json_object.h"
#include "weft/train/io/text_reader.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = 1'000'000'000, kMostEndings = 1000;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  TextReader reader({path});
  std::string all;
  for (;;) {
    absl::StatusOr<std::string_view> text = reader.Next();
    if (!text.ok()) return text.status();
    if (text->empty()) return all;
    all += *text;
    if (all.size() > kMostBytes)
      return BadInput(path,
                      fmt::format("expected at most {} bytes of JSON lines, got more; divide the file", kMostBytes));
  }
}

absl::StatusOr<const Json*> FieldOf(const Json& record, const char* name, const std::string& place) {
  auto found = record.find(name);
  if (found != record.end()) return &*found;
  return BadInput(place,
                  fmt::format(R"(expected {{"ctx": "...", "endings": ["...", ...], "label": 0}}, got no {:?})", name));
}

absl::StatusOr<std::vector<std::string>> EndingsOf(const Json& value, const std::string& place) {
  std::vector<std::string> endings;
  for (const Json& ending : value.is_array() ? value : Json::array())
    if (ending.is_string() && !ending.get_ref<const std::string&>().empty()) endings.push_back(ending);
  bool whole = value.is_array() && endings.size() == value.size();
  if (whole && endings.size() >= 2 && endings.size() <= kMostEndings) return endings;
  return BadInput(place, fmt::format("endings: expected a list of 2 to {} texts that are not empty, got {}",
                                     kMostEndings, Shown(value)));
}

absl::StatusOr<int64_t> LabelOf(const Json& value, int64_t endings, const std::string& place) {
  int64_t label = -1;
  if (value.is_number_integer()) label = value.get<int64_t>();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    if (error != std::errc() || end != text.data() + text.size()) label = -1;
  }
  if (label >= 0 && label < endings) return label;
  return BadInput(place, fmt::format("label: expected the index of one of {} endings, 0 to {}, got {}", endings,
                                     endings - 1, Shown(value)));
}

absl::StatusOr<ChoiceItem> ItemOf(std::string_view line, const std::string& place) {
  absl::StatusOr<Json> record = ParseJsonObject(std::as_bytes(std::span(line)), place);
  if (!record.ok()) return absl::InvalidArgumentError(std::string(record.status().message()));
  absl::StatusOr<const Json*> context = FieldOf(*record, "ctx", place), endings = FieldOf(*record, "endings", place),
                              label = FieldOf(*record, "label", place);
  for (const auto* field : {&context, &endings, &label})
    if (!field->ok()) return field->status();
  if (!(*context)->is_string()) return BadInput(place, fmt::format("ctx: expected a text, got {}", Shown(**context)));
  absl::StatusOr<std::vector<std::string>> texts = EndingsOf(**endings, place);
  if (!texts.ok()) return texts.status();
  absl::StatusOr<int64_t> index = LabelOf(**label, int64_t(texts->size()), place);
  if (!index.ok()) return index.status();
  return ChoiceItem{.context = **context, .endings = *std::move(texts), .label = *index};
}

std::string PlaceOf(const std::string& path, int64_t line) { return fmt::format("{}:{}", path, line); }

// A context, as lm-evaluation-harness divides it from an ending, and its tokens.
struct Context {
  std::string_view text, spaces;
  std::vector<int32_t> tokens;
};

absl::StatusOr<Context> EncodeContext(const ChoiceItem& item, const Tokenizer& tokenizer, const std::string& place) {
  std::string_view all = item.context;
  size_t size = all.find_last_not_of(" \t\n\v\f\r") + 1;  // npos + 1 is 0
  Context context{.text = all.substr(0, size), .spaces = all.substr(size)};
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(context.text);
  if (!tokens.ok()) return BadInput(place, fmt::format("ctx: {}", std::string(tokens.status().message())));
  context.tokens = *std::move(tokens);
  return context;
}

// Encodes the context and one ending. Something must come before the ending, to give its first token.
absl::StatusOr<EndingTokens> EncodeEnding(const Context& context, const std::string& ending, const Tokenizer& tokenizer,
                                          const std::string& place) {
  absl::StatusOr<std::vector<int32_t>> tokens =
      tokenizer.Encode(fmt::format("{}{} {}", context.text, context.spaces, ending));
  if (!tokens.ok()) return BadInput(place, fmt::format("{:?}: {}", ending, std::string(tokens.status().message())));
  EndingTokens result{.tokens = tokenizer.begin(), .count = int64_t(tokens->size()) - int64_t(context.tokens.size())};
  if (result.tokens.empty() && context.tokens.empty()) {
    if (!tokenizer.end_of_text())
      return BadInput(place,
                      "ctx: expected a text, got none, and the tokenizer has no token that can come before an ending");
    result.tokens = {*tokenizer.end_of_text()};
  }
  if (result.count < 1)
    return BadInput(
        place,
        fmt::format("{:?}: expected an ending with a token of its own, got one that its context takes in", ending));
  result.tokens.insert(result.tokens.end(), tokens->begin(), tokens->end());
  return result;
}

}  // namespace

absl::StatusOr<std::vector<ChoiceItem>> ReadChoices(const std::string& path) {
  absl::StatusOr<std::string> text = ReadText(path);
  if (!text.ok()) return text.status();
  std::vector<ChoiceItem> items;
  int64_t number = 0;
  for (size_t at = 0; at < text->size();) {
    size_t end = std::min(text->find('\n', at), text->size());
    std::string_view line = std::string_view(*text).substr(at, end - at);
    at = end + 1;
    number++;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    absl::StatusOr<ChoiceItem> item = ItemOf(line, PlaceOf(path, number));
    if (!item.ok()) return item.status();
    item->line = number;
    items.push_back(*std::move(item));
  }
  if (items.empty()) return BadInput(path, "expected JSON lines with items, got blank lines only");
  return items;
}

absl::StatusOr<std::vector<EndingTokens>> EncodeChoices(const std::vector<ChoiceItem>& items,
                                                        const Tokenizer& tokenizer, int64_t context,
                                                        const std::string& path) {
  std::vector<EndingTokens> all;
  for (const ChoiceItem& item : items) {
    std::string place = PlaceOf(path, item.line);
    absl::StatusOr<Context> before = EncodeContext(item, tokenizer, place);
    if (!before.ok()) return before.status();
    for (const std::string& ending : item.endings) {
      absl::StatusOr<EndingTokens> encoded = EncodeEnding(*before, ending, tokenizer, place);
      if (!encoded.ok()) return encoded.status();
      if (encoded->count > context)
        return BadInput(place, fmt::format("{:?}: expected an ending of at most model.context = {} tokens, got {}",
                                           ending, context, encoded->count));
      std::vector<int32_t>& tokens = encoded->tokens;
      tokens.erase(tokens.begin(), tokens.end() - std::min(int64_t(tokens.size()), context + 1));
      all.push_back(*std::move(encoded));
    }
  }
  return all;
}

}  // namespace weft
