#include "weft/train/tokenizer/huggingface_tokenizer.h"

#include "fmt/format.h"
#include "weft/train/io/json_object.h"
#include "weft/train/tokenizer/bpe_tokenizer.h"
#include "weft/train/tokenizer/tokenizer_parts.h"
#include "weft/train/tokenizer/tokenizer_vocab.h"

namespace weft {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  absl::StatusOr<BpeModel> Read(const Json& json) {
    absl::Status status = CheckTop(json);
    if (status.ok()) status = ReadTokenizerVocab(PartOf(json, "model"), PartOf(json, "added_tokens"), model_);
    if (status.ok()) status = ReadSplits(PartOf(json, "pre_tokenizer"));
    if (status.ok()) status = ReadBegin(PartOf(json, "post_processor"));
    if (!status.ok()) return status;
    return std::move(model_);
  }

 private:
  absl::Status CheckTop(const Json& json);
  absl::Status ReadSplits(const Json& pre_tokenizer);
  absl::Status ReadSplit(const Json& part);
  absl::Status ReadByteLevel(const Json& part);
  absl::Status ReadBegin(const Json& post_processor);
  absl::Status ReadTemplate(const Json& part);
  absl::Status AddBegin(const Json& tokens, const std::string& name);

  BpeModel model_;
  bool templated_ = false;
};

absl::Status Reader::CheckTop(const Json& json) {
  // Truncation and padding only affect batches, so they are ignored.
  absl::Status known = CheckPartKeys("tokenizer.json", json,
                                     {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                                      "post_processor", "decoder", "model"});
  if (!known.ok()) return known;
  if (PartOf(json, "version") != "1.0") return UnknownPart("version", "\"1.0\"", Shown(PartOf(json, "version")));
  if (const Json& normalizer = PartOf(json, "normalizer"); !normalizer.is_null())
    return UnknownPart("normalizer", "null", TypeOf(normalizer));
  const Json& decoder = PartOf(json, "decoder");
  if (!decoder.is_null() && !IsType(decoder, "ByteLevel")) return UnknownPart("decoder", "ByteLevel", TypeOf(decoder));
  return absl::OkStatus();
}

absl::Status Reader::ReadSplits(const Json& pre_tokenizer) {
  if (IsType(pre_tokenizer, "ByteLevel")) return ReadByteLevel(pre_tokenizer);
  const Json& parts = PartOf(pre_tokenizer, "pretokenizers");
  if (!IsType(pre_tokenizer, "Sequence") || !parts.is_array() || parts.empty())
    return UnknownPart("pre_tokenizer", "ByteLevel, or a Sequence of Split that ends in ByteLevel",
                       TypeOf(pre_tokenizer));
  for (size_t i = 0; i < parts.size(); i++) {
    bool last = i + 1 == parts.size();
    if (!IsType(parts[i], last ? "ByteLevel" : "Split"))
      return UnknownPart("pre_tokenizer", "a Sequence of Split that ends in ByteLevel",
                         fmt::format("{} in place {}", TypeOf(parts[i]), i));
    if (absl::Status s = last ? ReadByteLevel(parts[i]) : ReadSplit(parts[i]); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// With behavior Isolated, a pattern's matches and the text between them all become pieces, so `invert` has no effect.
absl::Status Reader::ReadSplit(const Json& part) {
  constexpr const char* kPart = "pre_tokenizer Split";
  if (absl::Status s = CheckPartKeys(kPart, part, {"type", "pattern", "behavior", "invert"}); !s.ok()) return s;
  if (PartOf(part, "behavior") != "Isolated")
    return UnknownPart(fmt::format("{}.behavior", kPart), "\"Isolated\"", Shown(PartOf(part, "behavior")));
  const Json& pattern = PartOf(part, "pattern");
  if (!pattern.is_object() || !PartOf(pattern, "Regex").is_string())
    return UnknownPart(fmt::format("{}.pattern", kPart), "a Regex", Shown(pattern));
  absl::StatusOr<Regex> regex = Regex::Compile(pattern["Regex"].get_ref<const std::string&>());
  if (!regex.ok()) return absl::UnimplementedError(fmt::format("{}: {}", kPart, std::string(regex.status().message())));
  model_.splits.push_back({*std::move(regex)});
  return absl::OkStatus();
}

absl::Status Reader::ReadByteLevel(const Json& part) {
  constexpr const char* kPart = "pre_tokenizer ByteLevel";
  if (absl::Status s = CheckPartKeys(kPart, part, {"type", "add_prefix_space", "trim_offsets", "use_regex"}); !s.ok())
    return s;
  absl::StatusOr<bool> space = FlagOf(kPart, part, "add_prefix_space"), regex = FlagOf(kPart, part, "use_regex", true);
  if (!space.ok()) return space.status();
  if (!regex.ok()) return regex.status();
  BpeModel::Split split{.adds_space = *space};
  if (*regex) {
    absl::StatusOr<Regex> pattern = Regex::Compile(kGpt2Pattern);
    if (!pattern.ok()) return pattern.status();
    split.pattern = *std::move(pattern);
  }
  model_.splits.push_back(std::move(split));
  return absl::OkStatus();
}

absl::Status Reader::ReadBegin(const Json& post_processor) {
  if (post_processor.is_null() || IsType(post_processor, "ByteLevel")) return absl::OkStatus();  // affects offsets only
  if (IsType(post_processor, "TemplateProcessing")) return ReadTemplate(post_processor);
  const Json& parts = PartOf(post_processor, "processors");
  if (!IsType(post_processor, "Sequence") || !parts.is_array())
    return UnknownPart("post_processor", "null, ByteLevel, TemplateProcessing or a Sequence of these",
                       TypeOf(post_processor));
  for (const Json& part : parts) {
    if (IsType(part, "Sequence")) return UnknownPart("post_processor", "no Sequence in a Sequence", TypeOf(part));
    if (absl::Status s = ReadBegin(part); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadTemplate(const Json& part) {
  if (std::exchange(templated_, true)) return UnknownPart("post_processor", "one TemplateProcessing", "two");
  if (absl::Status s = CheckPartKeys("post_processor", part, {"type", "single", "pair", "special_tokens"}); !s.ok())
    return s;
  const Json& single = PartOf(part, "single");
  bool text = false;
  for (const Json& piece : single.is_array() ? single : Json::array()) {
    bool sequence = piece.is_object() && piece.contains("Sequence"),
         first = PartOf(PartOf(piece, "Sequence"), "id") == "A";
    const Json& name = PartOf(PartOf(piece, "SpecialToken"), "id");
    if (text || (!sequence && !name.is_string()) || (sequence && !first))
      return UnknownPart("post_processor.single", "special tokens and then the Sequence A", Shown(single));
    text = sequence;
    if (sequence) continue;
    if (absl::Status s = AddBegin(PartOf(part, "special_tokens"), name.get_ref<const std::string&>()); !s.ok())
      return s;
  }
  if (!text) return UnknownPart("post_processor.single", "special tokens and then the Sequence A", Shown(single));
  return absl::OkStatus();
}

absl::Status Reader::AddBegin(const Json& tokens, const std::string& name) {
  const Json& ids = PartOf(PartOf(tokens, name.c_str()), "ids");
  for (const Json& id : ids.is_array() ? ids : Json::array({nullptr})) {
    bool known = id.is_number_unsigned() && id.get<size_t>() < model_.texts.size();
    if (!known)
      return BadPart(fmt::format("post_processor.special_tokens: expected ids below {} for {}, got {}",
                                 model_.texts.size(), Shown(name), Shown(ids)));
    model_.begin.push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

std::optional<int32_t> AddedTokenOf(const BpeModel& model, std::string_view content) {
  for (size_t id = 0; id < model.is_added.size(); id++)
    if (model.is_added[id] && model.texts[id] == content) return int32_t(id);
  return std::nullopt;
}

// Returns the token between documents: one of those that published models were trained with, or else the eos_token of
// the settings. In chat models the eos_token may only end a turn.
absl::StatusOr<std::optional<int32_t>> EndOfText(const BpeModel& model, const std::string& settings) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"})
    if (std::optional<int32_t> id = AddedTokenOf(model, name)) return id;
  if (settings.empty()) return std::nullopt;
  absl::StatusOr<Json> json = ParseJsonObject(std::as_bytes(std::span(settings)), kTokenizerSettings);
  if (!json.ok()) return json.status();
  const Json& token = PartOf(*json, "eos_token");
  const Json& content = token.is_object() ? PartOf(token, "content") : token;
  return content.is_string() ? AddedTokenOf(model, content.get_ref<const std::string&>()) : std::nullopt;
}

}  // namespace

absl::StatusOr<Tokenizer> HuggingFaceTokenizer(TokenizerFiles files) {
  absl::StatusOr<Json> json = ParseJsonObject(std::as_bytes(std::span(files.table)), "JSON");
  if (!json.ok()) return json.status();
  absl::StatusOr<BpeModel> model = Reader().Read(*json);
  if (!model.ok()) return model.status();
  absl::StatusOr<std::optional<int32_t>> end = EndOfText(*model, files.settings);
  if (!end.ok()) return end.status();
  model->end_of_text = *end;
  for (const char* spelling : kMaskSpellings)
    if (!model->mask) model->mask = AddedTokenOf(*model, spelling);
  return BpeTokenizer(TokenizerKind::kHuggingFace, std::move(files), *std::move(model));
}

}  // namespace weft
