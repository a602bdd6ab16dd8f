// Commands of the program `weft`. Each takes the words after its name and gives the exit code:
// 0 done, 2 bad usage or config, 1 failed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

using Words = std::vector<std::string>;

int TrainCommand(const Words& words);
int PlanCommand(const Words& words);

// The path and the path=value overrides of "CONFIG [key=value...]", or an empty path when the words are not that.
struct ConfigWords {
  std::string path;
  Words overrides;
};
ConfigWords SplitWords(const Words& words);
bool AsksForHelp(const Words& words);

}  // namespace weft
