// The words of `weft generate` that are not keys of the config.
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/infer/generate.h"
#include "weft/train/io/suggest.h"

namespace weft {
namespace {

const std::vector<std::string> kNames = {"prompt", "tokens", "temperature", "top_k", "top_p", "greedy", "seed"};

// Takes "name=value" words out of `words`; the last value.
std::optional<std::string> Take(std::vector<std::string>& words, const std::string& name) {
  std::optional<std::string> value;
  std::erase_if(words, [&](const std::string& word) {
    if (!word.starts_with(name + "=")) return false;
    value = word.substr(name.size() + 1);
    return true;
  });
  return value;
}

// Reads one option after the other, and keeps the first fault.
class Reader {
 public:
  explicit Reader(std::vector<std::string>& words) : words_(words) {}

  void Text(const char* name, std::string& to) {
    if (auto value = Take(words_, name)) to = *value;
  }
  void Number(const char* name, bool zero, double most, const char* expected, double& to) {
    auto value = Take(words_, name);
    double number = 0;
    if (!value) return;
    bool taken = absl::SimpleAtod(*value, &number) && (number > 0 || (zero && number == 0)) && number <= most;
    if (!taken) return Refuse(name, expected, *value);
    to = number;
  }
  void Whole(const char* name, int64_t least, int64_t most, int64_t& to) {
    auto value = Take(words_, name);
    int64_t number = 0;
    if (!value) return;
    if (!absl::SimpleAtoi(*value, &number) || number < least || number > most)
      return Refuse(name, fmt::format("an integer >= {} and <= {}", least, most), *value);
    to = number;
  }
  void Flag(const char* name, bool& to) {
    auto value = Take(words_, name);
    if (!value) return;
    if (*value != "true" && *value != "false") return Refuse(name, "true or false", *value);
    to = *value == "true";
  }
  absl::Status status;

 private:
  void Refuse(const char* name, const std::string& expected, const std::string& got) {
    if (status.ok())
      status = absl::InvalidArgumentError(fmt::format("command line: {}: expected {}, got {:?}", name, expected, got));
  }
  std::vector<std::string>& words_;
};

// What others call it: too far from our word for the count of edits.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"max_new_tokens", "tokens"}, {"max_tokens", "tokens"}, {"max_length", "tokens"},
    {"length", "tokens"},         {"n", "tokens"},          {"n_predict", "tokens"},
    {"temp", "temperature"},      {"do_sample", "greedy"},
};
std::string Meant(const std::string& word) {
  for (auto [other, ours] : kOtherNames)
    if (word == other) return std::string(ours);
  return Nearest(word, kNames);
}

// A word that is no key of the config was meant as an option.
absl::Status CheckSpelling(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    size_t equals = word.find('=');
    std::string key = word.substr(0, equals);
    bool of_config = key.find('.') != key.npos || FindField(key) || !KeysOf(key).empty();
    if (equals == word.npos || of_config) continue;
    std::string meant = Meant(key);
    return absl::InvalidArgumentError(
        fmt::format("command line: {}: unknown word; {}he words here are {} and the keys of the config", key,
                    meant.empty() ? "t" : fmt::format("did you mean {}? T", meant), fmt::join(kNames, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerateOptions> TakeGenerateOptions(std::vector<std::string>& words) {
  constexpr int64_t kBillion = 1'000'000'000;
  GenerateOptions options;
  SamplerOptions& sampler = options.sampler;
  int64_t seed = int64_t(sampler.seed);
  Reader reader(words);
  reader.Text("prompt", options.prompt);
  reader.Whole("tokens", 1, kBillion, options.tokens);
  reader.Number("temperature", /*zero=*/true, std::numeric_limits<double>::max(), "a number >= 0", sampler.temperature);
  reader.Whole("top_k", 0, kBillion, sampler.top_k);
  reader.Number("top_p", /*zero=*/false, 1, "a number > 0 and <= 1", sampler.top_p);
  reader.Flag("greedy", sampler.greedy);
  reader.Whole("seed", 0, std::numeric_limits<int64_t>::max(), seed);
  sampler.seed = uint64_t(seed);
  if (reader.status.ok()) reader.status = CheckSpelling(words);
  if (!reader.status.ok()) return reader.status;
  return options;
}

}  // namespace weft
