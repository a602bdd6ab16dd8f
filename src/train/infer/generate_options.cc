// The arguments of `weft generate` that are not config keys.
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/infer/generate.h"
#include "weft/train/io/suggest.h"

namespace weft {
namespace {

// Names in other tools that differ too much from ours for Nearest.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"max_new_tokens", "tokens"}, {"max_tokens", "tokens"}, {"max_length", "tokens"},
    {"length", "tokens"},         {"n", "tokens"},          {"n_predict", "tokens"},
    {"temp", "temperature"},      {"do_sample", "greedy"},
};
std::string Meant(const std::string& word, const std::vector<std::string>& names) {
  for (auto [other, ours] : kOtherNames)
    if (word == other) return std::string(ours);
  return Nearest(word, names);
}

// Returns an error for an argument that is not a config key, because it was probably meant as an option.
absl::Status CheckSpelling(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  for (const std::string& word : words) {
    size_t equals = word.find('=');
    std::string key = word.substr(0, equals);
    bool of_config = key.find('.') != key.npos || FindField(key) || !KeysOf(key).empty();
    if (equals == word.npos || of_config) continue;
    std::string meant = Meant(key, names);
    return absl::InvalidArgumentError(
        fmt::format("command line: {}: unknown word; {}he words here are {} and the keys of the config", key,
                    meant.empty() ? "t" : fmt::format("did you mean {}? T", meant), fmt::join(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Option> OptionsOf(GenerateOptions& options, int64_t& seed) {
  constexpr double kBillion = 1e9;
  SamplerOptions& sampler = options.sampler;
  return {
      {{.key = "prompt", .help = "what the text begins with"}, &options.prompt, Option::kVerbatim},
      {{.key = "tokens", .help = "how many to write", .bounds = {.low = 1, .high = kBillion}}, &options.tokens},
      {{.key = "temperature", .help = "sharpens the distribution below 1, flattens it above", .bounds = {.low = 0}},
       &sampler.temperature},
      {{.key = "top_k", .help = "draw from so many likeliest tokens", .bounds = {.low = 0, .high = kBillion}},
       &sampler.top_k},
      {{.key = "top_p",
        .help = "draw from the likeliest tokens of this share",
        .bounds = {.low = 0, .high = 1, .low_open = true}},
       &sampler.top_p},
      {{.key = "greedy", .help = "take the likeliest token"}, &sampler.greedy},
      {{.key = "seed", .help = "the same seed gives the same text", .bounds = {.low = 0}}, &seed},
  };
}

absl::StatusOr<GenerateOptions> TakeGenerateOptions(std::vector<std::string>& words) {
  GenerateOptions options;
  auto seed = int64_t(options.sampler.seed);
  std::vector<Option> rows = OptionsOf(options, seed);
  if (absl::Status s = TakeOptions(rows, words).status(); !s.ok()) return s;
  options.sampler.seed = uint64_t(seed);
  std::vector<std::string> names;
  for (const Option& row : rows) names.emplace_back(row.field.key);
  if (absl::Status s = CheckSpelling(words, names); !s.ok()) return s;
  return options;
}

}  // namespace weft
