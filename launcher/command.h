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
int PrepareCommand(const Words& words);

// "CONFIG [key=value...]", the words of `command`. The error says which word is wrong, and where the help is.
struct ConfigWords {
  std::string path;
  Words overrides;
};
absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words);
bool AsksForHelp(const Words& words);

}  // namespace weft
