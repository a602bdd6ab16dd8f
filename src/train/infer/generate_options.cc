// The arguments of `weft generate` that are not config keys.
#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/infer/generate.h"
#include "weft/train/io/text_reader.h"

namespace weft {
namespace {

// Names in other tools that differ too much from ours for Nearest.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"max_new_tokens", "tokens"},
    {"max_tokens", "tokens"},
    {"max_length", "tokens"},
    {"length", "tokens"},
    {"n", "tokens"},
    {"n_predict", "tokens"},
    {"temp", "temperature"},
    {"do_sample", "greedy"},
    {"num_samples", "samples"},
    {"stop_strings", "stop"},
    {"use_cache", "cache"},
    {"batch_size", "batch"},
    {"interactive", "repl"},
    {"num_return_sequences", "samples"},
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
    if (!SetsKey(word) || of_config) continue;
    std::string meant = Meant(key, names);
    return absl::InvalidArgumentError(
        fmt::format("command line: {}: unknown argument; {}he arguments here are {} and the keys of the config", key,
                    meant.empty() ? "t" : fmt::format("did you mean {}? T", meant), fmt::join(names, ", ")));
  }
  return absl::OkStatus();
}

// Replaces FILE:PATH by the bytes of the file. Errors name the argument `key`.
absl::Status ReadPrompt(std::string& prompt, const char* key = "prompt") {
  constexpr std::string_view kFile = "FILE:";
  constexpr uint64_t kMostBytes = 64'000'000;  // a context of a million tokens has fewer
  if (!prompt.starts_with(kFile)) return absl::OkStatus();
  absl::StatusOr<std::string> text = ReadFile(prompt.substr(kFile.size()), kMostBytes);
  if (!text.ok())
    return absl::InvalidArgumentError(fmt::format("command line: {}: {}", key, std::string(text.status().message())));
  if (text->empty())
    return absl::InvalidArgumentError(
        fmt::format("command line: {}: {}: the file is empty; give a text", key, prompt.substr(kFile.size())));
  prompt = *std::move(text);
  return absl::OkStatus();
}

// Adds the lines of a file to `prompts`. Blank lines are left out.
absl::Status ReadPrompts(const std::string& path, PathList& prompts) {
  std::string text = "FILE:" + path;
  if (absl::Status s = ReadPrompt(text, "prompts"); !s.ok()) return s;
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") != line.npos) prompts.push_back(line);
  }
  return absl::OkStatus();
}

// Replaces \n, \r, \t and \\, because a shell passes them on as they are written.
absl::Status ReplaceEscapes(std::string& stop) {
  constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'\\', '\\'}};
  std::string text;
  for (size_t at = 0; at < stop.size(); at++) {
    if (stop[at] != '\\') {
      text += stop[at];
      continue;
    }
    char name = ++at < stop.size() ? stop[at] : '\0';
    const auto* found = std::find_if(std::begin(kEscapes), std::end(kEscapes), [&](auto e) { return e.first == name; });
    if (found == std::end(kEscapes))
      return absl::InvalidArgumentError(fmt::format(
          R"(command line: stop: expected n, r, t or \ after a \, got "{}"; write \\ for the character \ itself)",
          stop));
    text += found->second;
  }
  if (text.empty()) return absl::InvalidArgumentError("command line: stop: expected a text, got nothing");
  stop = text;
  return absl::OkStatus();
}

// Checks what the schema of single options cannot, and reads the file of the prompt.
absl::Status Finish(GenerateOptions& options) {
  for (std::string& stop : options.stops)
    if (absl::Status s = ReplaceEscapes(stop); !s.ok()) return s;
  for (std::string& prompt : options.prompts)
    if (absl::Status s = ReadPrompt(prompt); !s.ok()) return s;
  if (!options.prompts_file.empty())
    if (absl::Status s = ReadPrompts(options.prompts_file, options.prompts); !s.ok()) return s;
  if (options.repl && options.samples > 1)
    return absl::InvalidArgumentError(fmt::format(
        "command line: samples: expected 1 with repl=true, which writes one text, got {}", options.samples));
  if (options.repl && options.prompts.size() > 1)
    return absl::InvalidArgumentError(fmt::format(
        "command line: prompt: expected one with repl=true, which writes one text, got {}", options.prompts.size()));
  if (options.prompts.size() == 1) {
    options.prompt = options.prompts[0];
    options.prompts.clear();
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Option> OptionsOf(GenerateOptions& options, int64_t& seed) {
  constexpr double kBillion = 1e9;
  SamplerOptions& sampler = options.sampler;
  return {
      {{.key = "prompt", .help = "what the text begins with; FILE:PATH reads it from a file; may be repeated"},
       &options.prompts,
       Option::kVerbatim},
      {{.key = "prompts", .help = "a file with one prompt per line"}, &options.prompts_file},
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
      {{.key = "samples", .help = "how many texts to write of each prompt", .bounds = {.low = 1, .high = 1e6}},
       &options.samples},
      {{.key = "stop", .help = "a text ends before this string; may be repeated"}, &options.stops, Option::kVerbatim},
      {{.key = "batch", .help = "how many texts to write at a time", .bounds = {.low = 1, .high = 65536}},
       &options.batch},
      {{.key = "cache", .help = "keep keys and values of earlier tokens"}, &options.cache},
      {{.key = "repl", .help = "continue the lines of stdin"}, &options.repl},
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
  if (absl::Status s = Finish(options); !s.ok()) return s;
  return options;
}

bool AsksForRepl(std::vector<std::string> words) {
  GenerateOptions options;
  int64_t seed = 0;
  return TakeOptions(OptionsOf(options, seed), words).ok() && options.repl;
}

}  // namespace weft
