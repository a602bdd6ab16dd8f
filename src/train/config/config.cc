#include "weft/train/config/config.h"

#include <algorithm>
#include <filesystem>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/rounding.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/config_presets.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/pattern_check.h"
#include "weft/train/config/plan_value.h"
#include "weft/train/config/run_name.h"
#include "weft/train/config/saved_config.h"
#include "weft/train/config/unknown_key.h"
#include "weft/train/io/input_file.h"
#include "weft/train/io/path_advice.h"
#include "weft/train/io/yaml_node.h"
#include "weft/train/tokenizer/published_tokenizer.h"

namespace weft {
namespace {

constexpr size_t kMostConfigBytes = 1 << 20;

// Gives the axis of -1 the ranks that the others leave. Does nothing if their product does not divide the number of
// ranks.
void FillMesh(MeshConfig& mesh, int64_t world_size) {
  int64_t known = mesh.ranks();
  if (world_size % known == 0)
    std::replace(mesh.sizes.begin(), mesh.sizes.end(), MeshConfig::kFill, world_size / known);
}

// "1 rank", "4 ranks".
std::string RanksText(int64_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

// Reads parsed nodes into the config and collects all faults with their positions.
class Reader {
 public:
  explicit Reader(Config& config) : config_(config) {}

  void ReadFile(const YamlNode& root, const std::string& name) {
    file_ = config_.file = name;
    config_.origins[""] = fmt::format("{}:1:1: ", name);
    if (root.kind == YamlNode::kMap) return ReadMap("", root);
    Fault(fmt::format("{}:{}:{}: expected a mapping of keys, got {}", name, root.line, root.column,
                      root.kind == YamlNode::kNull ? "nothing" : "another value"));
  }

  void ReadOverride(const std::string& word) {
    file_.clear();
    size_t equals = word.find('=');
    if (equals == word.npos || equals == 0) {
      Fault(fmt::format("command line: {}: expected key=value, e.g. train.steps=100", word));
      return;
    }
    std::string key = word.substr(0, equals);
    absl::StatusOr<YamlNode> value = WordValue(key, word.substr(equals + 1));
    if (!value.ok()) {
      Fault(std::string(value.status().message()));
    } else {
      Read(key, kCommandLine, *value);
    }
  }

  std::vector<std::string> faults;

 private:
  // The first faults are enough to show that a file is not a config.
  static constexpr size_t kMostFaults = 20;
  void Fault(std::string line) {
    if (faults.size() < kMostFaults) faults.push_back(std::move(line));
  }

  std::string Place(int line, int column) const {
    return file_.empty() ? kCommandLine : fmt::format("{}:{}:{}: ", file_, line, column);
  }

  void ReadMap(const std::string& section, const YamlNode& map) {
    std::map<std::string, int> overrides;  // for an argument, which may repeat keys of the file or of others
    std::map<std::string, int>& lines = file_.empty() ? overrides : lines_;
    for (const YamlEntry& entry : map.entries) {
      if (faults.size() == kMostFaults) return;
      std::string key = section.empty() ? entry.key : section + "." + entry.key;
      std::string place = Place(entry.line, entry.column);
      if (auto [first, fresh] = lines.emplace(key, entry.line); !fresh) {
        Fault(fmt::format("{}{}: given twice, first on line {}; remove one", place, key, first->second));
        continue;
      }
      Read(key, place, entry.value);
    }
  }

  void Read(const std::string& key, const std::string& place, const YamlNode& value) {
    const Field* field = FindField(key);
    if (!field && !IsSection(key)) return Fault(fmt::format("{}{}: {}", place, key, UnknownKey(key)));
    config_.origins[key] = place;
    if (!field) return ReadSection(key, place, value);
    if (std::optional<ValueFault> fault = SetValue(*field, value, config_)) {
      // An absent value has no position of its own.
      std::string at = fault->at->kind == YamlNode::kNull ? place : Place(fault->at->line, fault->at->column);
      Fault(fmt::format("{}{}: {}", at, key, fault->what));
    }
  }

  void ReadSection(const std::string& key, const std::string& place, const YamlNode& value) {
    if (value.kind == YamlNode::kMap) return ReadMap(key, value);
    Fault(fmt::format("{}{}: expected a mapping of keys ({}), got {}", place, key, fmt::join(KeysOf(key), ", "),
                      value.kind == YamlNode::kNull ? "nothing; fill it or remove it" : "a value"));
  }

  Config& config_;
  std::string file_;  // "" while reading the command line
  // By full key of the file, so that a top-level "train.steps" repeats `steps` in `train`.
  std::map<std::string, int> lines_;
};

void FillPrecision(Config& config) {
  DType wider = config.precision.compute == DType::kF64 ? DType::kF64 : DType::kF32;
  if (!config.Given("precision.params")) config.precision.params = wider;
  if (!config.Given("precision.reduce")) config.precision.reduce = wider;
}

// Lowers the warm-up if the command line gives fewer steps than the file's warm-up. Such a run is a short test of a
// config for a long one.
void LowerWarmup(Config& config) {
  int64_t steps = config.train.steps, &warmup = config.schedule.warmup_steps;
  bool wanted = FromCommandLine(config, "schedule.warmup_steps") || !FromCommandLine(config, "train.steps");
  if (wanted || steps < 1 || warmup <= steps) return;
  config.notes.push_back(
      fmt::format("{}{} is lowered to {}, as train.steps is", PlaceOf(config, "schedule.warmup_steps"), warmup, steps));
  warmup = steps;
}

// Published weights come with their tokenizer.
void FillTokenizer(Config& config) {
  if (config.model.init.empty() || config.Given("data.tokenizer")) return;
  if (std::optional<std::string> folder = FolderWithTokenizer(config.model.init)) {
    config.data.tokenizer = fmt::format("{}:{}", kTokenizers[size_t(TokenizerKind::kHuggingFace)].word, *folder);
    config.notes.push_back(fmt::format("data.tokenizer: {}, from the folder of model.init", config.data.tokenizer));
  }
}

// Returns the axes that have a size of their own, as in "dp=2 x tp=2".
std::string SizedAxes(const MeshConfig& mesh) {
  std::vector<std::string> sized;
  for (const MeshAxis& axis : kMeshAxes)
    if (int64_t size = mesh[axis.name()]; size > 1) sized.push_back(fmt::format("{}={}", axis.name(), size));
  return fmt::format("{}", fmt::join(sized, " x "));
}

// An axis on the command line is more likely to be wrong than the file's section.
absl::Status RefuseMesh(const Config& config, const std::string& what) {
  for (const MeshAxis& axis : kMeshAxes)
    if (FromCommandLine(config, axis.key))
      return absl::InvalidArgumentError(fmt::format("{}mesh: {}", kCommandLine, what));
  return RefuseKey(config, "mesh", what);
}

absl::StatusOr<Config> Parse(std::string_view yaml, const std::string& name, const std::vector<std::string>& overrides,
                             std::span<const ConfigRule> rules, bool saved) {
  absl::StatusOr<YamlNode> root = ParseYaml(yaml, name);
  if (!root.ok()) return root.status();
  Config config;
  Reader reader(config);
  reader.ReadFile(*root, name);
  for (const std::string& word : overrides) reader.ReadOverride(word);
  if (reader.faults.empty()) {
    FillModel(config);
    FillFamily(config);
    if (saved) FillEarlier(config);
    FillOptimizer(config);
    if (std::string fault = LoadPlan(config); !fault.empty()) reader.faults.push_back(fault);
    FillPrecision(config);
    LowerWarmup(config);
    FillTokenizer(config);
    FillRun(config);
  }
  if (reader.faults.empty()) reader.faults = CheckConfig(config, rules);
  if (!reader.faults.empty()) return absl::InvalidArgumentError(fmt::format("{}", fmt::join(reader.faults, "\n")));
  return config;
}

}  // namespace

absl::StatusOr<Config> ParseConfig(std::string_view yaml, const std::string& name,
                                   const std::vector<std::string>& overrides, std::span<const ConfigRule> rules) {
  return Parse(yaml, name, overrides, rules, false);
}
absl::StatusOr<Config> ParseSavedConfig(std::string_view yaml, const std::string& name,
                                        const std::vector<std::string>& overrides) {
  return Parse(yaml, name, overrides, {}, true);
}

absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides,
                                  std::span<const ConfigRule> rules) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(path + ": no such file; expected a YAML config such as configs/quickstart.yaml" +
                               PathAdvice(path));
  }
  if (std::filesystem::is_directory(path, error)) {
    // In a folder of prepared data or a checkpoint.
    std::string inside = (std::filesystem::path(path) / "config.yaml").string();
    bool holds = std::filesystem::exists(inside, error);
    return absl::InvalidArgumentError(fmt::format("{}: expected a YAML config, got a folder; {}", path,
                                                  holds ? "did you mean " + inside + "?" : "give a file in it"));
  }
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  std::string text(kMostConfigBytes + 1, '\0');
  absl::StatusOr<size_t> size = file->Read(text);
  if (!size.ok()) return size.status();
  if (*size > kMostConfigBytes)
    return absl::InvalidArgumentError(fmt::format(
        "{}:1:1: expected a YAML config, got a file of more than {} bytes; is it data?", path, kMostConfigBytes));
  text.resize(*size);
  return ParseConfig(text, path, overrides, rules);
}

int64_t& MeshConfig::operator[](std::string_view axis) {
  for (size_t i = 0; i < kNumMeshAxes; i++)
    if (kMeshAxes[i].name() == axis) return sizes[i];
  Fail(fmt::format("mesh: there is no axis {}", axis));
}

int64_t MeshConfig::ranks() const {
  int64_t ranks = 1;
  for (int64_t size : sizes)
    if (size != kFill && ranks <= kMaxRanks) ranks *= size;
  return ranks;
}

namespace {

// Adds a note if some data parallel ranks get no sequence of a batch, `share` at most on each. A config of weft bench
// has no batch.
void NoteIdleRanks(Config& config, int64_t ranks, int64_t share) {
  int64_t batch = config.train.global_batch;
  int64_t idle = batch == 0 ? 0 : ranks - CeilDiv(batch, share);
  if (idle == 0) return;
  config.notes.push_back(
      fmt::format("{}{} sequence{} over {} data parallel ranks leave{} {} without any; a multiple of {} gives each the "
                  "same number",
                  PlaceOf(config, "train.global_batch"), batch, batch == 1 ? "" : "s", ranks, batch == 1 ? "s" : "",
                  RanksText(idle), ranks));
}

// Adds a note if some tensor parallel ranks get no head.
void NoteIdleHeads(Config& config) {
  int64_t ranks = config.mesh[kTensorAxis], heads = config.model.heads, idle = ranks - heads;
  if (heads == 0 || idle <= 0) return;
  config.notes.push_back(fmt::format("{}{} heads over {} tensor parallel ranks leave {} without any; give at most {}",
                                     PlaceOf(config, "mesh.tp"), heads, ranks, RanksText(idle), heads));
}

// Sets train.micro_batch to at most the share of a rank. Adds a note if the user gave more.
void FillMicroBatch(Config& config, int64_t share) {
  int64_t& micro = config.train.micro_batch;
  if (micro > share)
    config.notes.push_back(fmt::format(
        "{}{} acts as {}, which is a rank's whole share of train.global_batch = {}; give at most {}, or raise "
        "train.global_batch",
        PlaceOf(config, "train.micro_batch"), micro, share, config.train.global_batch, share));
  micro = micro == 0 ? share : std::min(micro, share);
}

// Adds a note if a micro-batch of one sequence per rank has no halves.
void NoteNoHalves(Config& config) {
  if (config.parallel.overlap != OverlapMode::kHalves || config.train.micro_batch != 1) return;
  config.notes.push_back(PlaceOf(config, "parallel.overlap") +
                         "halves acts as fill, because each rank has one sequence of a micro-batch; raise "
                         "train.micro_batch or train.global_batch to 2 sequences per rank");
}

// Adds a note if no rows of blocks can be cut.
void NoteNoChunks(Config& config) {
  int64_t ranks = config.mesh[kTensorAxis], tokens = config.model.context,
          chunks = std::max<int64_t>(config.parallel.chunks, 2);
  if (config.parallel.overlap != OverlapMode::kChunks) return;
  std::string why;
  if (ranks == 1)
    why = "mesh.tp is 1, so that blocks have no collectives of activations; give more, or fill";
  else if (config.train.micro_batch >= chunks)
    return;  // chunks of sequences
  else if (config.parallel.sequence_parallel && tokens % ranks != 0)
    why = fmt::format(
        "the ranks of mesh.tp do not hold the same number of a sequence's {} tokens; make model.context a "
        "multiple of {}",
        tokens, ranks);
  else if (config.parallel.sequence_parallel && tokens / ranks < chunks)
    why = fmt::format("a rank of mesh.tp holds {} of a sequence's {} tokens, fewer than {} chunks; give fewer chunks",
                      tokens / ranks, tokens, chunks);
  if (!why.empty())
    config.notes.push_back(PlaceOf(config, "parallel.overlap") + "no rows of blocks are computed in chunks, because " +
                           why);
}

}  // namespace

absl::Status Resolve(Config& config, int world_size) {
  FillMesh(config.mesh, world_size);
  int64_t ranks = config.mesh.ranks();
  if (config.mesh.num_fills() > 0)
    return RefuseMesh(config,
                      fmt::format("{} needs a multiple of {}, but {} started; use ranks={} or mpirun -np {}, or "
                                  "change the mesh",
                                  SizedAxes(config.mesh), RanksText(ranks), world_size, ranks, ranks));
  MeshShape mesh = MeshOf(config);
  if (ranks != world_size) {
    return RefuseMesh(config, fmt::format("{} is {}, but {} started; use ranks={} or mpirun -np {}, or change the mesh",
                                          ToString(mesh), RanksText(ranks), world_size, ranks, ranks));
  }
  if (config.parallel.chunks == 1)
    return RefuseKey(config, "parallel.chunks",
                     "expected 0, or 2 to 64 chunks, got 1, which is the whole; give 0 or 2");
  int64_t batch_ranks = RanksWith(mesh, &MeshAxis::shards_batch);
  int64_t share = CeilDiv(config.train.global_batch, batch_ranks);
  FillMicroBatch(config, share);
  NoteIdleRanks(config, batch_ranks, share);
  NoteNoHalves(config);
  NoteIdleHeads(config);
  NoteNoChunks(config);
  std::string conflict = RowsInConflict(config);
  return conflict.empty() ? absl::OkStatus() : absl::InvalidArgumentError(conflict);
}

namespace {

// Whether `rows` is a padded vocabulary. Published embeddings are padded to a multiple of at most 128, or to a multiple
// of a number of ranks; the most that we know of adds 1.8 %.
bool IsPadding(int64_t rows, int64_t kinds) {
  constexpr int64_t kMultiple = 128, kShare = 50;
  int64_t most = std::max(RoundUp(kinds, kMultiple), kinds + kinds / kShare);
  return rows >= kinds && rows <= most;
}

void NoteUntrained(Config& config, int64_t tokenizer_vocab) {
  if (config.data.synthetic || config.model.vocab <= 2 * tokenizer_vocab) return;
  config.notes.push_back(
      fmt::format("{}{} is more than twice the {} kinds of token of tokenizer {}: no text contains the others, which "
                  "only learn to be improbable",
                  PlaceOf(config, "model.vocab"), config.model.vocab, tokenizer_vocab, config.data.tokenizer));
}

}  // namespace

absl::Status ResolveVocab(Config& config, int64_t tokenizer_vocab) {
  bool initial = !config.model.init.empty() && !config.data.synthetic;
  if (config.model.vocab == 0) config.model.vocab = tokenizer_vocab;
  if (initial && !IsPadding(config.model.vocab, tokenizer_vocab))
    return RefuseKey(
        config, "data.tokenizer",
        fmt::format("expected the tokenizer of model.init, of model.vocab = {} kinds of token, got {} with {}; "
                    "give it as huggingface:PATH, a folder with tokenizer.json or tokenizer.model",
                    config.model.vocab, config.data.tokenizer, tokenizer_vocab));
  if (!initial) NoteUntrained(config, tokenizer_vocab);
  if (config.model.vocab >= tokenizer_vocab) return absl::OkStatus();
  constexpr const char* kMore[] = {"", " with the mask", " with the end and the padding of texts"};
  const char* mask = kMore[size_t(config.train.objective)];
  return RefuseKey(
      config, "model.vocab",
      fmt::format("expected at least the {} kinds of token of tokenizer {}{}, got {}; raise it or remove it",
                  tokenizer_vocab, config.data.tokenizer, mask, config.model.vocab));
}

std::string SavedConfigPath(const std::string& jsonl) { return jsonl + ".config.yaml"; }

std::string SavedConfigPath(const Config& config) {
  return IsOfRun(config, "log.jsonl") ? RunFolder(config.run) + "/config.yaml" : SavedConfigPath(config.log.jsonl);
}

std::string ToYaml(const Config& config) {
  std::string text;
  for (const std::string& section : SectionNames()) {
    std::string lines;
    for (const std::string& key : KeysOf(section)) {
      std::string value = PrintValue(*FindField(key), config);
      if (value.empty() || IsOfRun(config, key)) continue;  // reading `run` sets it again
      std::string name = section.empty() ? key : "  " + key.substr(section.size() + 1);
      lines += fmt::format("{}: {}\n", name, value);
    }
    if (!section.empty() && !lines.empty()) text += section + ":\n";
    text += lines;
  }
  return text;
}

}  // namespace weft
