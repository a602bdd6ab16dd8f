#include "weft/train/tokenizer/tokenizer_vocab.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/train/io/json_object.h"
#include "weft/train/tokenizer/byte_letters.h"
#include "weft/train/tokenizer/tokenizer_parts.h"

namespace weft {
namespace {

using Json = nlohmann::json;

class VocabReader {
 public:
  explicit VocabReader(BpeModel& model) : model_(model) {}
  absl::Status ReadModel(const Json& model);
  absl::Status ReadAdded(const Json& added);

 private:
  absl::Status ReadVocab(const Json& vocab);
  absl::Status CheckLetters() const;
  absl::Status ReadMerges(const Json& merges);
  absl::Status AddMerge(const Json& merge, uint32_t rank);
  absl::StatusOr<AddedToken> ReadToken(const Json& token);

  BpeModel& model_;
  absl::flat_hash_map<std::string, int32_t> ids_;  // by spelling; without added tokens
};

absl::Status VocabReader::ReadModel(const Json& model) {
  bool untyped = model.is_object() && !model.contains("type") && model.contains("merges");  // GPT-2's own file
  if (!untyped && !IsType(model, "BPE")) return UnknownPart("model", "BPE", TypeOf(model));
  if (absl::Status s = CheckPartKeys("model", model,
                                     {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                      "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
      !s.ok())
    return s;
  // The remaining keys concern characters that have no token. Every byte has one, so they have no effect.
  if (const Json& dropout = PartOf(model, "dropout"); !dropout.is_null() && dropout != 0)
    return UnknownPart("model.dropout", "null or 0", Shown(dropout));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Json& affix = PartOf(model, key); !affix.is_null() && affix != "")
      return UnknownPart(fmt::format("model.{}", key), "null or \"\"", Shown(affix));
  absl::StatusOr<bool> whole = FlagOf("model", model, "ignore_merges", false);
  if (!whole.ok()) return whole.status();
  absl::Status status = ReadVocab(PartOf(model, "vocab"));
  if (status.ok()) status = CheckLetters();
  if (status.ok()) status = ReadMerges(PartOf(model, "merges"));
  if (!status.ok() || !*whole) return status;
  for (const auto& [spelling, id] : ids_)
    if (std::optional<std::string> bytes = BytesOfLetters(spelling)) model_.pairs.whole_words[*bytes] = id;
  return absl::OkStatus();
}

absl::Status VocabReader::ReadVocab(const Json& vocab) {
  if (!vocab.is_object())
    return BadPart("model.vocab: expected an object of tokens and their ids, got " + Shown(vocab));
  model_.texts.resize(vocab.size());
  ids_.reserve(vocab.size());
  std::vector<bool> taken(vocab.size());
  model_.pairs.letters.fill(-1);
  for (const auto& [spelling, value] : vocab.items()) {
    size_t id = value.is_number_unsigned() ? value.get<size_t>() : vocab.size();
    if (id >= vocab.size() || taken[id])
      return BadPart(fmt::format("model.vocab: expected the ids 0 to {}, each for one token, got {} for {}",
                                 vocab.size() - 1, Shown(value), Shown(spelling)));
    taken[id] = true;
    std::optional<std::string> bytes = BytesOfLetters(spelling);
    if (bytes && bytes->size() == 1) model_.pairs.letters[uint8_t(bytes->front())] = int32_t(id);
    model_.texts[id] = bytes ? *std::move(bytes) : spelling;
    ids_[spelling] = int32_t(id);
  }
  return absl::OkStatus();
}

// Text that contains a byte without a token would be lost, or become the unknown token.
absl::Status VocabReader::CheckLetters() const {
  for (int byte = 0; byte < 256; byte++) {
    bool in_text = byte < 0xC0 || (byte > 0xC1 && byte < 0xF5);  // other bytes do not occur in UTF-8
    if (in_text && model_.pairs.letters[size_t(byte)] < 0)
      return UnknownPart("model.vocab", "a token for each byte of UTF-8", fmt::format("none for 0x{:02x}", byte));
  }
  return absl::OkStatus();
}

absl::Status VocabReader::ReadMerges(const Json& merges) {
  if (!merges.is_array()) return BadPart("model.merges: expected a list of pairs, got " + Shown(merges));
  model_.pairs.merges.reserve(merges.size());
  uint32_t rank = 0;
  for (const Json& merge : merges) {
    bool comment = merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version");
    if (comment) continue;
    if (absl::Status s = AddMerge(merge, rank++); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// A merge is "a b" or ["a", "b"]. If a pair occurs twice, the later merge counts.
absl::Status VocabReader::AddMerge(const Json& merge, uint32_t rank) {
  std::string left, right;
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    size_t space = text.find(' ');
    left = text.substr(0, space);
    right = space == text.npos ? "" : text.substr(space + 1);
    if (right.find(' ') != right.npos) right.clear();
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    left = merge[0], right = merge[1];
  }
  if (left.empty() || right.empty())
    return BadPart(fmt::format("model.merges: expected \"a b\" or [\"a\", \"b\"], got {}", Shown(merge)));
  auto a = ids_.find(left), b = ids_.find(right), both = ids_.find(left + right);
  for (auto [found, token] : {std::pair(a, &left), std::pair(b, &right)})
    if (found == ids_.end())
      return BadPart(fmt::format("model.merges: expected tokens of model.vocab, got {}", Shown(*token)));
  if (both == ids_.end())
    return BadPart(fmt::format("model.merges: expected pairs that make a token of model.vocab, got {}", Shown(merge)));
  model_.pairs.merges[BytePairs::KeyOf(a->second, b->second)] = {rank, both->second};
  return absl::OkStatus();
}

absl::Status VocabReader::ReadAdded(const Json& added) {
  if (!added.is_array() && !added.is_null()) return BadPart("added_tokens: expected a list, got " + Shown(added));
  model_.is_added.resize(model_.texts.size());
  std::array<std::vector<AddedToken>, 2> tokens;
  for (const Json& json : added) {
    absl::StatusOr<AddedToken> token = ReadToken(json);
    if (!token.ok()) return token.status();
    auto id = size_t(token->id);
    if (id >= model_.texts.size()) model_.texts.emplace_back(), model_.is_added.push_back(false);
    if (model_.is_added[id]) return BadPart(fmt::format("added_tokens: {} is there twice", Shown(token->content)));
    model_.is_added[id] = true;
    model_.texts[id] = token->content;
    absl::StatusOr<bool> normalized = FlagOf("added_tokens", json, "normalized");
    if (!normalized.ok()) return normalized.status();
    tokens[*normalized].push_back(*std::move(token));
  }
  // Otherwise two added tokens could claim the same white space.
  for (const std::vector<AddedToken>& some : tokens)
    if (std::ranges::any_of(some, &AddedToken::takes_space_after) && std::ranges::any_of(some, BeginsWithSpace))
      return UnknownPart("added_tokens.rstrip", "false next to a token that begins with white space", "true");
  for (size_t i = 0; i < tokens.size(); i++) model_.added[i] = AddedTokens(std::move(tokens[i]));
  return absl::OkStatus();
}

absl::StatusOr<AddedToken> VocabReader::ReadToken(const Json& token) {
  constexpr const char* kPart = "added_tokens";
  if (!token.is_object()) return BadPart("added_tokens: expected objects, got " + Shown(token));
  if (absl::Status s =
          CheckPartKeys(kPart, token, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      !s.ok())
    return s;
  const Json& content = PartOf(token, "content");
  if (!content.is_string() || content == "") return BadPart("added_tokens: expected a content, got " + Shown(token));
  absl::StatusOr<bool> word = FlagOf(kPart, token, "single_word"), left = FlagOf(kPart, token, "lstrip"),
                       right = FlagOf(kPart, token, "rstrip");
  for (const auto* flag : {&word, &left, &right})
    if (!flag->ok()) return flag->status();
  if (*word) return UnknownPart("added_tokens.single_word", "false", "true for " + Shown(content));
  // As in the tokenizers library, a token of the model keeps its id, and further tokens get the next ids.
  auto known = ids_.find(content.get_ref<const std::string&>());
  int32_t id = known == ids_.end() ? int32_t(model_.texts.size()) : known->second;
  if (PartOf(token, "id") != id)
    return BadPart(
        fmt::format("added_tokens: expected the id {} for {}, got {}", id, Shown(content), Shown(PartOf(token, "id"))));
  return AddedToken{content, id, *left, *right};
}

}  // namespace

absl::Status ReadTokenizerVocab(const Json& model, const Json& added_tokens, BpeModel& bpe) {
  VocabReader reader(bpe);
  absl::Status status = reader.ReadModel(model);
  return status.ok() ? reader.ReadAdded(added_tokens) : status;
}

}  // namespace weft
