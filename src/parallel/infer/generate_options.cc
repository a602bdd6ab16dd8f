// The words of `weft generate` that are not keys of the config.
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "parallel/infer/generate.h"
#include "parallel/train/config_schema.h"
#include "parallel/train/suggest.h"

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
  void Number(const char* name, double most, const char* expected, double& to) {
    auto value = Take(words_, name);
    double number = 0;
    if (!value) return;
    if (!absl::SimpleAtod(*value, &number) || !(number > 0 && number <= most)) return Refuse(name, expected, *value);
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

// A word that is near an option's name, and no key of the config, was meant as that.
absl::Status CheckSpelling(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    size_t equals = word.find('=');
    std::string key = word.substr(0, equals);
    std::string nearest = equals != word.npos && key.find('.') == key.npos ? Nearest(key, kNames) : "";
    if (nearest.empty() || FindField(key) || !KeysOf(key).empty()) continue;
    return absl::InvalidArgumentError(
        fmt::format("command line: {}: unknown word; did you mean {}? The words here are {} and the keys of the config",
                    key, nearest, fmt::join(kNames, ", ")));
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
  reader.Number("temperature", std::numeric_limits<double>::max(),
                "a number > 0 (greedy=true takes the likeliest token each time)", sampler.temperature);
  reader.Whole("top_k", 0, kBillion, sampler.top_k);
  reader.Number("top_p", 1, "a number > 0 and <= 1", sampler.top_p);
  reader.Flag("greedy", sampler.greedy);
  reader.Whole("seed", 0, std::numeric_limits<int64_t>::max(), seed);
  sampler.seed = uint64_t(seed);
  if (reader.status.ok()) reader.status = CheckSpelling(words);
  if (!reader.status.ok()) return reader.status;
  return options;
}

}  // namespace weft
