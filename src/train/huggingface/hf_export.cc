#include "weft/train/huggingface/hf_export.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "weft/train/checkpoint/resume.h"
#include "weft/train/checkpoint/safetensors_writer.h"
#include "weft/train/checkpoint/saved_tokenizer.h"
#include "weft/train/config/model_of.h"
#include "weft/train/data/pairs.h"
#include "weft/train/huggingface/hf_names.h"
#include "weft/train/io/durable.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// A Hugging Face tensor and the parameters that it consists of.
struct Part {
  std::string parameter;
  Shape shape;
  HfPlace place;
};
struct Target {
  Shape shape;
  std::vector<Part> parts;
};

// Checks that the parts have as many elements as the target. PlaceInHf has checked that each part lies inside.
void CheckFilled(const std::string& name, const Target& target) {
  int64_t elements = 0;
  for (const Part& part : target.parts) elements += part.place.copies * NumElements(part.shape);
  WEFT_CHECK(elements == NumElements(target.shape),
             fmt::format("{}: expected {} elements, got {} of {} and {} more", name, NumElements(target.shape),
                         elements, target.parts.front().parameter, target.parts.size() - 1));
}

absl::StatusOr<std::map<std::string, Target>> TargetsOf(const Checkpoint& checkpoint, const HfFamily& family,
                                                        const Config& config) {
  std::map<std::string, Target> targets;
  std::unique_ptr<Model> model = MakeModel(ModelOf(config));
  for (const Parameter* p : model->Parameters()) {
    auto saved = checkpoint.manifest().tensors.find(p->path());
    if (saved == checkpoint.manifest().tensors.end() || saved->second.shape != p->shape())
      return absl::DataLossError(fmt::format(
          "{}: tensor {}: expected {}, as its config.yaml has it, got {}", checkpoint.folder(), p->path(),
          ToString(p->shape()), saved == checkpoint.manifest().tensors.end() ? "none" : ToString(saved->second.shape)));
    std::optional<HfPlace> place = PlaceInHf(family, p->path(), p->shape(), config.model.heads);
    WEFT_CHECK(place, fmt::format("the table of family {} has no row for {}", family.family, p->path()));
    Target& target = targets[place->tensor];
    WEFT_CHECK(target.parts.empty() || target.shape == place->shape,
               fmt::format("{} is {} with {}, but {} with {}", place->tensor, ToString(place->shape), p->path(),
                           ToString(target.shape), target.parts.front().parameter));
    target.shape = place->shape;
    target.parts.push_back({p->path(), p->shape(), *std::move(place)});
  }
  for (const auto& [name, target] : targets) CheckFilled(name, target);
  for (const HfTwin& twin : family.twins)
    if (auto first = targets.find(twin.tensor); twin.written && first != targets.end())
      targets[twin.other] = first->second;
  return targets;
}

// Returns the object that contains a key such as rope_scaling.factor, and the key within it. Returns null if the model
// needs no such object.
std::pair<nlohmann::json*, std::string> PlaceOf(const std::string& key, const ModelConfig& model,
                                                nlohmann::json& json) {
  size_t dot = key.find('.');
  if (dot == key.npos) return {&json, key};
  if (model.rope_factor == 1) return {nullptr, ""};
  nlohmann::json& object = json[key.substr(0, dot)];
  object["rope_type"] = kHfScalingType;
  return {&object, key.substr(dot + 1)};
}

nlohmann::json JsonOf(double value, HfNumber::Kind kind) {
  if (kind == HfNumber::kReal) return value;
  if (kind == HfNumber::kFlag) return value != 0;
  return std::llround(value);
}

// Returns the contents of config.json.
std::string SettingsOf(const HfFamily& family, const ModelConfig& model, DType dtype) {
  nlohmann::json json = nlohmann::json::parse(family.rest);
  for (const HfWord& w : family.words)
    if (w.Applies(model)) json[w.key] = w.words[0];
  for (std::span<const HfNumber> numbers : {family.numbers, family.sizes})
    for (const HfNumber& n : numbers) {
      double value = n.value(model);
      auto [object, key] = PlaceOf(n.key, model, json);
      if (!object) continue;
      (*object)[key] = n.null && value == 0 ? nlohmann::json(nullptr) : JsonOf(value, n.kind);
    }
  json["tie_word_embeddings"] = model.tie_embeddings;
  json["torch_dtype"] = dtype == DType::kF32 ? "float32" : dtype == DType::kBF16 ? "bfloat16" : "float16";
  return json.dump(2) + "\n";
}

absl::Status WriteWeights(const Checkpoint& checkpoint, const std::map<std::string, Target>& targets, DType dtype,
                          const std::string& path) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, target] : targets) entries.push_back({name, dtype, target.shape});
  absl::StatusOr<DurableFile> file = DurableFile::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status s = file->Write(SafetensorsHeader(entries, "pt")); !s.ok()) return s;
  std::vector<std::byte> bytes;
  for (const auto& [name, target] : targets) {
    bytes.resize(size_t(NumElements(target.shape)) * SizeOf(dtype));
    for (const Part& part : target.parts) {
      Box whole{Shape(part.shape.size(), 0), part.shape};
      for (int64_t copy = 0; copy < part.place.copies; copy++) {
        int64_t first = part.place.offset + copy * part.place.copy_stride;
        checkpoint.Read(part.parameter,
                        {whole, dtype, bytes.data() + size_t(first) * SizeOf(dtype), part.place.strides});
      }
    }
    if (absl::Status s = checkpoint.Fault(); !s.ok()) return s;
    if (absl::Status s = file->Write(std::span<const std::byte>(bytes)); !s.ok()) return s;
  }
  return file->Close();
}

// Writes the folder under a temporary name and then renames it.
absl::Status WriteFolder(const std::string& out, const std::map<std::string, std::string>& texts,
                         const std::function<absl::Status(const std::string& path)>& weights) {
  std::string unfinished = out + ".unfinished";
  auto in = [&](const std::string& name) { return (fs::path(unfinished) / name).string(); };
  std::vector<std::function<absl::Status()>> steps = {
      [&] { return RemoveAll(unfinished); },
      [&] { return MakeFolders(unfinished); },
      [&] { return weights(in("model.safetensors")); },
  };
  for (const auto& [name, text] : texts) steps.push_back([&] { return WriteFile(in(name), text); });
  steps.push_back([&] { return SyncFolder(unfinished); });
  steps.push_back([&] { return PutInPlace(unfinished, out); });
  for (const auto& step : steps)
    if (absl::Status s = step(); !s.ok()) {
      RemoveAll(unfinished).IgnoreError();  // frees the space, because a full disk may have caused the failure
      return s;
    }
  absl::Status named = SyncNameOf(out);
  if (!named.ok()) RemoveAll(out).IgnoreError();
  return named;
}

absl::StatusOr<Config> ExportedConfig(const Checkpoint& checkpoint) {
  absl::StatusOr<Config> config = ConfigOf(checkpoint);
  if (!config.ok()) return config;
  if (absl::Status s = Resolve(*config, int(config->mesh.ranks())); !s.ok()) return s;
  const HfFamily* family = FindHfFamily(config->model.family);
  std::string why = family ? HfRefusal(*family, config->model) : "";
  if (!why.empty()) return absl::InvalidArgumentError(checkpoint.PathOf(kConfigFile) + ": " + why);
  if (family) return config;
  return absl::InvalidArgumentError(
      fmt::format("{}: model.family: expected {}, which transformers reads in Weft's way, got {}",
                  checkpoint.PathOf(kConfigFile), HfFamilyNames(), config->model.family));
}

// The file name of a tokenizer in a published folder.
struct PublishedTokenizer {
  TokenizerKind kind;
  const char* file;
};
constexpr PublishedTokenizer kPublished[] = {{TokenizerKind::kHuggingFace, "tokenizer.json"},
                                             {TokenizerKind::kSentencePiece, "tokenizer.model"},
                                             {TokenizerKind::kTiktoken, "tokenizer.model"}};

// Returns the settings with which transformers produces Weft's tokens, for a tokenizer that came without settings.
// Returns "" if there are none.
std::string SettingsOf(const PublishedTokenizer& published, const std::string& table) {
  if (published.kind == TokenizerKind::kHuggingFace) return "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n";
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::FromFiles(published.kind, {table});
  if (published.kind != TokenizerKind::kSentencePiece || !tokenizer.ok()) return "";
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer->Encode("a");
  bool begins = false;  // false, so that a space that the model puts there is shown
  bool spaced = tokens.ok() && !tokens->empty() && tokenizer->TextOf((*tokens)[0], begins).starts_with(' ');
  return fmt::format(
      "{{\"tokenizer_class\": \"LlamaTokenizer\", \"add_bos_token\": false, \"add_prefix_space\": {}}}\n", spaced);
}

// Returns the contents of generation_config.json, with which transformers' `generate` begins and ends a text as
// `weft generate` does. Returns "" for a model that continues texts, or if the tokenizer is unknown.
absl::StatusOr<std::string> GenerationOf(const Checkpoint& checkpoint, const Config& config) {
  if (config.train.objective != TrainObjective::kPairs) return "";
  absl::StatusOr<std::optional<Tokenizer>> tokenizer = SavedTokenizer(checkpoint);
  if (!tokenizer.ok()) return tokenizer.status();
  if (!*tokenizer) return "";
  PairLayout layout = PairLayoutOf(config.model, (*tokenizer)->vocab(), (*tokenizer)->end_of_text());
  std::vector<int64_t> never;  // no target has them
  for (int64_t token = layout.pad; token < config.model.vocab; token++) never.push_back(token);
  nlohmann::json json = {{"decoder_start_token_id", layout.pad},
                         {"pad_token_id", layout.pad},
                         {"eos_token_id", layout.end},
                         {"suppress_tokens", never},
                         {"max_length", layout.context - layout.source + 1}};  // with the token that begins a target
  return json.dump(2) + "\n";
}

// Adds the tokenizer's files and returns the name of its main file, or "".
std::string AddTokenizer(const Checkpoint& checkpoint, std::map<std::string, std::string>& texts) {
  for (const PublishedTokenizer& published : kPublished) {
    std::string table = checkpoint.TextOf(kTokenizers[size_t(published.kind)].file);
    if (table.empty()) continue;
    std::string settings = checkpoint.TextOf(kTokenizerSettings);
    if (settings.empty()) settings = SettingsOf(published, table);
    if (!settings.empty()) texts[kTokenizerSettings] = std::move(settings);
    texts[published.file] = std::move(table);
    return published.file;
  }
  return "";
}

}  // namespace

absl::StatusOr<HfExport> ExportHf(const Checkpoint& checkpoint, const std::string& out, DType dtype) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(out, error)))
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a folder to be made, got one that is there; name another, or remove it", out));
  absl::StatusOr<Config> config = ExportedConfig(checkpoint);
  if (!config.ok()) return config.status();
  const HfFamily* family = FindHfFamily(config->model.family);
  absl::StatusOr<std::map<std::string, Target>> targets = TargetsOf(checkpoint, *family, *config);
  if (!targets.ok()) return targets.status();
  HfExport done{.notes = config->notes};
  for (const auto& [name, target] : *targets) {
    done.tensors++;
    done.bytes += uint64_t(NumElements(target.shape)) * SizeOf(dtype);
  }
  std::map<std::string, std::string> texts = {{"config.json", SettingsOf(*family, config->model, dtype)}};
  absl::StatusOr<std::string> generation = GenerationOf(checkpoint, *config);
  if (!generation.ok()) return generation.status();
  if (!generation->empty()) texts["generation_config.json"] = *std::move(generation);
  done.tokenizer = AddTokenizer(checkpoint, texts);
  absl::Status written = WriteFolder(
      out, texts, [&](const std::string& weights) { return WriteWeights(checkpoint, *targets, dtype, weights); });
  if (!written.ok()) return written;
  return done;
}

}  // namespace weft
