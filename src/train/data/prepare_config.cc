#include "weft/train/data/prepare_config.h"

#include <algorithm>
#include <filesystem>

#include "fmt/format.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/run_name.h"

namespace weft {
namespace {

// Names the shards by a glob if possible, because that is shorter than a list.
PathList Named(const std::vector<std::string>& train) {
  std::string folder = std::filesystem::path(train[0]).parent_path().string();
  bool plain = folder.find_first_of("*?[\\") == folder.npos;
  if (train.size() == 1 || !plain) return {train.begin(), train.end()};
  return {(std::filesystem::path(folder) / "train_*.bin").string()};
}

// Returns the name of the folder that contains `file`.
std::string FolderName(const std::string& file) {
  std::error_code error;  // on an error the path is used as given
  std::filesystem::path full = std::filesystem::absolute(file, error);
  return (error ? std::filesystem::path(file) : full).lexically_normal().parent_path().filename().string();
}

}  // namespace

std::string PreparedConfig(const PrepareReport& report) {
  constexpr int64_t kContext = 128;
  Config config;
  config.data.train = Named(report.train);
  config.data.val.paths.assign(report.val.begin(), report.val.end());
  config.data.tokenizer = report.tokenizer;
  config.run = RunNameFrom(FolderName(report.config));
  auto value = [&](const char* key) { return PrintValue(*FindField(key), config); };
  bool evaluates = !report.val.empty();
  std::string val = evaluates ? fmt::format("  val: {}\n", value("data.val")) : "";
  return fmt::format(
      "# Written by weft prepare: {} tokens to train on and {} to validate with, of {} files and {} bytes of text. The "
      "model is small;\n# any key can be changed, here or on the command line. The paths start where weft is started.\n"
      "model: {{family: gpt2, layers: 4, heads: 4, dim: 128, context: {}, vocab: {}}}\n"
      "data:\n  train: {}\n{}  tokenizer: {}\n"
      "mesh: {{dp: -1, tp: 1}}\n"
      "optimizer: {{name: adamw, lr: 3e-3}}\n"
      "schedule: {{name: cosine, warmup_steps: 20, min_lr: 3e-4}}\n"
      "train: {{steps: 500, global_batch: 16, seed: 1{}}}\n"
      "run: {}\n"
      "checkpoint: {{every: 100, keep: 2}}\n"
      "log: {{every: 10}}\n",
      report.train_tokens, report.val_tokens, report.files, report.bytes, std::min(kContext, report.train_tokens - 1),
      report.vocab, value("data.train"), val, value("data.tokenizer"), evaluates ? ", eval_every: 100" : "",
      value("run"));
}

}  // namespace weft
