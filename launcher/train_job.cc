#include "launcher/train_job.h"

#include "weft/train/config/config_check.h"
#include "weft/train/huggingface/initial_weights.h"
#include "weft/train/io/output_path.h"
#include "weft/train/preflight/output_check.h"
#include "weft/train/preflight/run_rules.h"

namespace weft {

absl::StatusOr<TrainJob> LoadTrainJob(const Words& words, int world_size) {
  absl::StatusOr<ConfigWords> split = SplitWords("train", words);
  if (!split.ok()) return split.status();
  absl::StatusOr<Config> config = LoadConfig(split->path, split->overrides, RunRules());
  if (!config.ok()) return config.status();
  if (absl::Status s = Resolve(*config, world_size); !s.ok()) return s;
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  if (!data.ok()) return data.status();
  if (absl::Status s = ResolveVocab(*config, data->tokenizer_vocab()); !s.ok()) return s;
  // The trainer opens the weights again. Opening them here reports an error before anything starts.
  if (!config->model.init.empty())
    if (absl::Status s = InitialWeights::Open(*config).status(); !s.ok()) return s;
  return TrainJob{*std::move(config), *std::move(data)};
}

absl::Status CheckOutputs(const Config& config) {
  for (const OutputPath& output : OutputPathsOf(config)) {
    const std::string& path = output.path;
    absl::Status status = output.is_folder() ? MakeOutputFolder(path) : CheckOutputFile(path);
    if (status.ok() && path == config.log.jsonl) status = CheckOutputFile(SavedConfigPath(config));
    if (!status.ok()) return RefuseKey(config, output.key, status.message());
  }
  return absl::OkStatus();
}

}  // namespace weft
