#include "launcher/bench/bench_config.h"

#include "launcher/vocab.h"

namespace weft {
namespace {

absl::StatusOr<Config> StepConfig(const BenchWords& words, int ranks, std::vector<std::string>& notes) {
  absl::StatusOr<Config> config = LoadConfig(words.config_path, words.overrides);
  if (!config.ok()) return config;
  if (absl::Status s = Resolve(*config, ranks); !s.ok()) return s;
  if (absl::Status s = FillVocab(*config, notes); !s.ok()) return s;
  // A step uses none of these: its tokens are random numbers below model.vocab.
  config->data = {.tokenizer = "bytes", .synthetic = true};
  config->model.init.clear();
  config->checkpoint = {};
  notes.insert(notes.end(), config->notes.begin(), config->notes.end());
  return config;
}

}  // namespace

absl::StatusOr<Config> BenchConfig(const BenchWords& words, int ranks, std::vector<std::string>& notes) {
  if (!words.config_path.empty()) return StepConfig(words, ranks, notes);
  Config config = words.config;
  if (absl::Status s = Resolve(config, ranks); !s.ok()) return s;
  if (words.kind == "collective" && ranks == 1)
    notes.emplace_back(
        "with one rank nothing moves to another, so these are times of copies in its memory; start more with ranks=N");
  return config;
}

}  // namespace weft
