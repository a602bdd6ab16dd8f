// Commands of the program `weft`. Each takes the arguments after its name and returns the exit code:
// 0 for success, 2 for bad usage or a bad config, 1 for a failure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/config/options.h"

namespace weft {

using Words = std::vector<std::string>;

int TrainCommand(const Words& words);
int PlanCommand(const Words& words);
int BenchCommand(const Words& words);
int GenerateCommand(const Words& words);
int EvalCommand(const Words& words);
int ExportCommand(const Words& words);
int DoctorCommand(const Words& words);
int PrepareCommand(const Words& words);
int ReportCommand(const Words& words);

struct Completion;
// One row per command, for usage, help and completions.
struct Command {
  const char* name;
  int (*run)(const Words&);
  const char* line;
  enum Takes : uint8_t { kFiles, kConfig } takes = kFiles;  // kConfig: also key=value for keys of the config
  std::vector<Completion> (*completions)() = nullptr;       // null: no options of its own
  bool on_ranks = false;                                    // may run on several ranks; other commands refuse to
};

// An option that a shell can complete, and its values if they are known.
struct Completion {
  std::string name;  // "top_k=", "--json"
  Words values;
};
std::vector<Completion> CompletionsOf(std::span<const Option> options);
// Return the options of each command that are not keys of the config.
std::vector<Completion> RankCompletions();  // for every command with on_ranks
std::vector<Completion> PlanCompletions();
std::vector<Completion> BenchCompletions();
std::vector<Completion> GenerateCompletions();
std::vector<Completion> EvalCompletions();
std::vector<Completion> ExportCompletions();
std::vector<Completion> PrepareCompletions();
std::vector<Completion> ReportCompletions();

// Parses the arguments "CONFIG [key=value...]" of `command`. Errors name the wrong argument and how to get help.
struct ConfigWords {
  std::string path;
  Words overrides;
};
absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words);
// Parses "[CHECKPOINT|CONFIG] [key=value...]". The path is empty if it is not given.
absl::StatusOr<ConfigWords> SplitModelWords(const std::string& command, const Words& words);
bool AsksForHelp(const Words& words);

}  // namespace weft
