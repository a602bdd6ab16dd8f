#include "weft/train/config/unknown_key.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config_schema.h"

namespace weft {
namespace {

// Names that other trainers use; their edit distance to our names is too large.
constexpr std::pair<std::string_view, std::string_view> kOtherKeys[] = {
    {"learning_rate", "optimizer.lr"}, {"wd", "optimizer.weight_decay"}, {"batch_size", "train.global_batch"},
    {"max_steps", "train.steps"},      {"max_iters", "train.steps"},     {"num_steps", "train.steps"},
    {"grad_clip", "train.clip"},       {"max_norm", "train.clip"},       {"n_layer", "model.layers"},
    {"num_layers", "model.layers"},    {"n_head", "model.heads"},        {"num_heads", "model.heads"},
    {"hidden_size", "model.dim"},      {"n_embd", "model.dim"},          {"d_model", "model.dim"},
    {"block_size", "model.context"},   {"seq_len", "model.context"},     {"vocab_size", "model.vocab"},
    {"dtype", "precision.compute"},    {"output_dir", "checkpoint.dir"}, {"save_every", "checkpoint.every"},
    {"log_interval", "log.every"},     {"dataset", "data.train"},        {"data_parallel", "mesh.dp"},
    {"tensor_parallel", "mesh.tp"},    {"compile", "executor"},
};

std::vector<std::string> AllKeys() {
  std::vector<std::string> keys = SectionNames();
  std::erase(keys, "");
  for (const Field& field : Schema()) keys.push_back(field.key);
  return keys;
}

std::string Meant(const std::string& key) {
  std::string_view last = std::string_view(key).substr(key.rfind('.') + 1);
  for (auto [other, ours] : kOtherKeys)
    if (last == other) return std::string(ours);
  return NearestKey(key, AllKeys());
}

// Kinds of parallelism that other trainers have, and the usual names of their axes.
constexpr std::pair<std::string_view, std::string_view> kNotBuilt[] = {
    {"pp", "pipeline"}, {"cp", "context"}, {"ep", "expert"}};

// Returns the kind that the key asks for, or "". Axes count only where a mesh is described, because elsewhere such
// short names may be typos: mesh.pp, parallel.pipeline_stages, and context_parallel_degree in any section.
std::string_view NotBuilt(std::string_view key) {
  std::string_view last = LastPart(key);
  bool of_mesh = key.starts_with("mesh.") || key.starts_with("parallel.");
  for (auto [axis, kind] : kNotBuilt) {
    bool named = last.starts_with(kind) && (of_mesh || last.find("parallel") != last.npos);
    if (named || key == axis || (of_mesh && last == axis)) return kind;
  }
  return "";
}

// Names for the number of ranks. A config does not have it, because the launcher sets it.
constexpr std::string_view kRanks[] = {"rank",     "ranks", "num_ranks", "nproc",     "nproc_per_node",
                                       "num_gpus", "gpus",  "devices",   "world_size"};

}  // namespace

bool IsSection(const std::string& key) {
  std::vector<std::string> names = SectionNames();
  return !key.empty() && std::find(names.begin(), names.end(), key) != names.end();
}

std::string UnknownKey(const std::string& key) {
  if (key == "<<" || key.ends_with(".<<")) return "a config has no merge keys; write the keys out";
  if (std::find(std::begin(kRanks), std::end(kRanks), key) != std::end(kRanks))
    return "unknown key; the argument ranks=N of weft train, or mpirun, starts N ranks";
  if (std::string_view kind = NotBuilt(key); !kind.empty())
    return fmt::format(
        "{} parallelism is not built; use mesh.dp, mesh.tp, parallel.fsdp=full (FSDP over mesh.dp), or that with "
        "mesh.replicate (HSDP)",
        kind);
  std::string section = key.find('.') == key.npos ? "" : key.substr(0, key.find('.'));
  std::vector<std::string> keys = IsSection(section) ? KeysOf(section) : AllKeys();
  std::erase_if(keys, [&](const std::string& known) { return section.empty() && known.find('.') != known.npos; });
  std::string all = fmt::format("the keys here are {}", fmt::join(keys, ", "));
  std::string meant = Meant(key);
  if (meant.empty()) return "unknown key; " + all;
  // The names of axes are so short that each is close to every other, so all keys are listed.
  return fmt::format("unknown key; did you mean {}?{}", meant, section == "mesh" ? " " + all : "");
}

}  // namespace weft
