#include "weft/train/config/run_name.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "fmt/format.h"

namespace weft {
namespace {

bool IsAlnum(char ch) { return std::isalnum(uint8_t(ch)) && uint8_t(ch) < 0x80; }
bool IsOfName(char ch) { return IsAlnum(ch) || ch == '.' || ch == '_' || ch == '-'; }

// A key that a run's name fills, and its path in the run's folder.
struct Output {
  const char* key;
  const char* path;
  std::string& (*member)(Config&);
};
constexpr Output kOutputs[] = {
    {"checkpoint.dir", "", [](Config& c) -> std::string& { return c.checkpoint.dir; }},
    {"log.jsonl", "/log.jsonl", [](Config& c) -> std::string& { return c.log.jsonl; }},
    {"log.tensorboard", "/tensorboard", [](Config& c) -> std::string& { return c.log.tensorboard; }},
    {"profile.path", "/trace.json", [](Config& c) -> std::string& { return c.profile.path; }},
};

}  // namespace

bool IsRunName(std::string_view name) {
  return !name.empty() && IsAlnum(name[0]) && std::all_of(name.begin(), name.end(), IsOfName);
}

std::string RunNameFrom(std::string_view text) {
  std::string name;
  for (char ch : text) name += IsOfName(ch) ? ch : '-';
  return IsRunName(name) ? name : "run" + name;
}

std::string RunFolder(const std::string& name) { return (std::filesystem::path(kRunsFolder) / name).string(); }

std::string NumberedRun(const std::string& name, int64_t number) {
  return number == 1 ? name : fmt::format("{}-{}", name, number);
}

bool IsNumberedRun(const std::string& name, std::string_view folder) {
  if (folder == name) return true;
  int64_t number = 0;
  bool numbered =
      folder.starts_with(name + "-") && absl::SimpleAtoi(std::string(folder.substr(name.size() + 1)), &number);
  return numbered && number > 1 && NumberedRun(name, number) == folder;
}

void FillRun(Config& config) {
  if (config.run.empty()) return;
  for (const Output& output : kOutputs)
    if (!config.Given(output.key)) output.member(config) = RunFolder(config.run) + output.path;
}

bool IsOfRun(const Config& config, std::string_view key) {
  bool is_output = std::any_of(std::begin(kOutputs), std::end(kOutputs), [&](const Output& o) { return key == o.key; });
  return is_output && !config.run.empty() && !config.Given(std::string(key));
}

std::string ResumeWords(const Config& config) {
  return (config.run.empty() ? "" : fmt::format("run={} ", config.run)) + "checkpoint.resume=auto";
}

}  // namespace weft
