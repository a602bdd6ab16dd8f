// Commands of the program `weft`. Each takes the words after its name and gives the exit code:
// 0 done, 2 bad usage or config, 1 failed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

using Words = std::vector<std::string>;

int TrainCommand(const Words& words);
int PlanCommand(const Words& words);
int GenerateCommand(const Words& words);
int EvalCommand(const Words& words);
int ExportCommand(const Words& words);
int DoctorCommand(const Words& words);
int PrepareCommand(const Words& words);
int ReportCommand(const Words& words);

// "CONFIG [key=value...]", the words of `command`. The error says which word is wrong, and where the help is.
struct ConfigWords {
  std::string path;
  Words overrides;
};
absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words);
// The same of "CHECKPOINT|CONFIG [key=value...]".
absl::StatusOr<ConfigWords> SplitModelWords(const std::string& command, const Words& words);
// `--flag VALUE` and `--flag=VALUE` as what they stand for, `key=VALUE`.
Words WithoutFlag(const Words& words, const std::string& flag, const std::string& key);
bool AsksForHelp(const Words& words);

}  // namespace weft
