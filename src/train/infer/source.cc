#include "weft/train/infer/source.h"

#include <filesystem>

#include "fmt/format.h"
#include "weft/core/host/notice.h"
#include "weft/parallel/nn/plans/sharding_plan.h"
#include "weft/train/checkpoint/newest_run.h"
#include "weft/train/checkpoint/resume.h"
#include "weft/train/checkpoint/saved_tokenizer.h"
#include "weft/train/checkpoint/whole.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/run_name.h"
#include "weft/train/data/data.h"
#include "weft/train/preflight/agreement.h"
#include "weft/train/preflight/run_rules.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

absl::Status Refuse(const std::string& what) { return absl::InvalidArgumentError(what); }

enum Kind : char { kNothing, kFile, kFolder };

// All ranks use rank 0's view, so that they look for the same thing.
Kind KindOf(const std::string& path, const Ranks& ranks) {
  std::error_code error;
  Kind kind = !fs::exists(path, error) ? kNothing : fs::is_directory(path, error) ? kFolder : kFile;
  return Kind(ranks.gather(std::string(1, char(kind)))[0][0]);
}

absl::StatusOr<ModelSource> FromCheckpoint(const std::string& path, const Words& overrides, const Ranks& ranks) {
  absl::StatusOr<NamedCheckpoint> named = OpenNamed(path, ranks);
  if (!named.ok()) return named.status();
  Checkpoint& checkpoint = named->checkpoint;
  absl::StatusOr<Config> config = ConfigOf(checkpoint, overrides);
  if (!config.ok()) return config.status();
  if (absl::Status s = CheckModel(*config, checkpoint, /*only_read=*/true); !s.ok()) return s;
  for (const std::string& note : config->notes) named->notes.push_back(NoteLine(note));
  return ModelSource{
      .config = *std::move(config), .checkpoint = std::move(checkpoint), .notes = std::move(named->notes)};
}

absl::StatusOr<ModelSource> FromConfig(const std::string& path, const Words& overrides, const Ranks& ranks) {
  absl::StatusOr<Config> config = LoadConfig(path, overrides, RunRules());
  if (absl::Status s = FirstFault(ranks, config.status()); !s.ok()) return s;
  // The collectives below match only if all ranks were given the same config.
  if (absl::Status s = CheckSameConfig(*config, "", ranks); !s.ok()) return s;
  ModelSource source{.config = *std::move(config)};
  if (IsOfRun(source.config, "checkpoint.dir"))
    if (std::string run = NewestRun(ranks, source.config.run); !run.empty()) {
      source.config.run = run;
      FillRun(source.config);
    }
  const std::string& dir = source.config.checkpoint.dir;
  bool weights = !source.config.model.init.empty();
  if (weights && (dir.empty() || FromCommandLine(source.config, "model.init"))) return source;
  NewestWhole newest;
  if (!dir.empty()) newest = FindNewestWhole(dir, ranks, source.config.train.steps);
  source.notes = newest.Notes();
  source.checkpoint = std::move(newest.checkpoint);
  absl::Status same = source.checkpoint ? CheckModel(source.config, *source.checkpoint) : absl::OkStatus();
  if (!same.ok()) return same;
  if (source.checkpoint || (weights && newest.broken.empty())) return source;
  if (!newest.broken.empty()) return BrokenAlone(dir, newest);
  return Refuse(fmt::format(
      "{}: expected a trained model, got a config whose checkpoint.dir {}; train it first, or give "
      "the folder of a checkpoint, or model.init=PATH of published weights",
      path,
      dir.empty()
          ? "is not set"
          : fmt::format("= {} holds no checkpoint of a step up to train.steps = {}", dir, source.config.train.steps)));
}

absl::Status FitMesh(Config& config, int ranks, MeshFill fill) {
  MeshConfig& mesh = config.mesh;
  bool dp = FromCommandLine(config, "mesh.dp"), tp = FromCommandLine(config, "mesh.tp");
  const char* filled = tp || (!dp && fill == MeshFill::kData) ? "mesh.dp" : "mesh.tp";
  bool fits = mesh.num_fills() > 0 || mesh.ranks() == ranks;
  for (size_t i = 0; i < kNumMeshAxes; i++) {
    const char* key = kMeshAxes[i].key;
    if (!fits && !FromCommandLine(config, key)) mesh.sizes[i] = std::string_view(key) == filled ? MeshConfig::kFill : 1;
  }
  int64_t tensor = mesh[kTensorAxis];
  bool whole = tensor == 1 || (tensor == MeshConfig::kFill && ranks <= mesh.ranks());
  if (whole && !FromCommandLine(config, "parallel.sequence_parallel")) config.parallel.sequence_parallel = false;
  return Resolve(config, ranks);
}

// Returns NAME of the last argument run=NAME, or "" if there is none.
absl::StatusOr<std::string> NamedRun(const Words& overrides) {
  std::string name;
  for (const std::string& word : overrides) {
    if (!word.starts_with("run=")) continue;
    name = word.substr(4);
    if (!IsRunName(name))
      return Refuse(fmt::format("{}run: expected the name of a run in {}/, got {:?}; without run= the newest is taken",
                                kCommandLine, kRunsFolder, name));
  }
  return name;
}

absl::StatusOr<ModelSource> FromNewestRun(const Words& overrides, const Ranks& ranks) {
  absl::StatusOr<std::string> name = NamedRun(overrides);
  if (absl::Status s = FirstFault(ranks, name.status()); !s.ok()) return s;
  std::string run = NewestRun(ranks, *name);
  if (run.empty() && !name->empty())
    return Refuse(fmt::format("{}run: expected a run that has saved a checkpoint, got {:?}, of which {} has none",
                              kCommandLine, *name, fs::current_path().append(kRunsFolder).string()));
  if (run.empty())
    return Refuse(fmt::format(
        "CHECKPOINT or CONFIG is missing, and no run in {} has saved a checkpoint; expected the folder of a "
        "checkpoint, or a YAML file such as configs/quickstart.yaml",
        fs::current_path().append(kRunsFolder).string()));
  absl::StatusOr<ModelSource> source = FromCheckpoint(RunFolder(run), overrides, ranks);
  if (source.ok()) source->notes.insert(source->notes.begin(), fmt::format("newest run: {}", RunFolder(run)));
  return source;
}

absl::StatusOr<ModelSource> Open(const std::string& path, const Words& overrides, const Ranks& ranks) {
  if (path.empty()) return FromNewestRun(overrides, ranks);
  switch (KindOf(path, ranks)) {
    case kFolder:
      return FromCheckpoint(path, overrides, ranks);
    case kFile:
      return FromConfig(path, overrides, ranks);
    case kNothing:
      break;
  }
  std::error_code ignored;
  bool named = IsRunName(path) && fs::is_directory(RunFolder(path), ignored);
  return Refuse(
      fmt::format("{}: no such file or folder; expected a checkpoint, a folder of them, or a YAML config such as "
                  "configs/quickstart.yaml{}",
                  path, named ? fmt::format("; did you mean {}?", RunFolder(path)) : ""));
}

// Returns the tokenizer that data.tokenizer names.
absl::StatusOr<Tokenizer> NamedTokenizer(const ModelSource& source) {
  const Config& config = source.config;
  bool named = FromCommandLine(config, "data.tokenizer");
  absl::StatusOr<DataFiles> files = FindDataFiles(config.data.train);
  bool shards = files.ok() && files->format->holds_tokens();
  if (!named && (source.checkpoint || (shards && !NamesTokenizerOfShards(config))))
    return RefuseKey(config, "data.tokenizer",
                     "is not known of a model that was trained on token shards; name the one that made them, e.g. "
                     "data.tokenizer=bytes or data.tokenizer=sentencepiece:PATH");
  if (config.data.tokenizer == "chars") {
    absl::StatusOr<Dataset> data = Dataset::Load(config);
    if (!data.ok()) return data.status();
    return *data->tokenizer();
  }
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open(config.data.tokenizer);
  if (tokenizer.ok()) return tokenizer;
  return RefuseKey(config, "data.tokenizer", tokenizer.status().message());
}

}  // namespace

absl::StatusOr<ModelSource> OpenSource(const std::string& path, const Words& overrides, const Ranks& ranks,
                                       MeshFill fill) {
  absl::StatusOr<ModelSource> source = Open(path, overrides, ranks);
  absl::Status mine = source.ok() ? FitMesh(source->config, ranks.size, fill) : source.status();
  if (absl::Status s = FirstFault(ranks, mine); !s.ok()) return s;
  source->notes.push_back("weights: " +
                          (source->checkpoint ? source->checkpoint->folder() : source->config.model.init));
  return source;
}

absl::StatusOr<Tokenizer> TokenizerOf(const ModelSource& source) {
  absl::StatusOr<std::optional<Tokenizer>> saved = std::nullopt;
  if (source.checkpoint) saved = SavedTokenizer(*source.checkpoint);
  if (!saved.ok()) return saved.status();
  if (*saved && !FromCommandLine(source.config, "data.tokenizer")) return **std::move(saved);
  absl::StatusOr<Tokenizer> named = NamedTokenizer(source);
  if (named.ok() && *saved && (named->kind() != (*saved)->kind() || named->files().table != (*saved)->files().table))
    return RefuseKey(source.config, "data.tokenizer",
                     fmt::format("expected the tokenizer of {}, which is there as {}, got another; remove it",
                                 source.checkpoint->folder(), (*saved)->names().file));
  return named;
}

}  // namespace weft
