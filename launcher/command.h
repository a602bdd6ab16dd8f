// Commands of the program `weft`. Each takes the words after its name and gives the exit code:
// 0 done, 2 bad usage or config, 1 failed.
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
int GenerateCommand(const Words& words);
int EvalCommand(const Words& words);
int ExportCommand(const Words& words);
int DoctorCommand(const Words& words);
int PrepareCommand(const Words& words);
int ReportCommand(const Words& words);

struct Completion;
// One row a command, for usage, help and completions.
struct Command {
  const char* name;
  int (*run)(const Words&);
  const char* line;
  enum Takes : uint8_t { kFiles, kConfig } takes = kFiles;  // kConfig: key=value of the config too
  std::vector<Completion> (*completions)() = nullptr;       // null: no options of its own
  bool on_ranks = false;                                    // takes ranks=N; another one refuses to run on several
};

// A word that a shell can complete: an option's name and, of some, its values.
struct Completion {
  std::string name;  // "top_k=", "--json"
  Words values;
};
std::vector<Completion> CompletionsOf(std::span<const Option> options);
// The options of each command that are no keys of the config.
std::vector<Completion> RankCompletions();  // of train, and of every command on ranks
std::vector<Completion> PlanCompletions();
std::vector<Completion> GenerateCompletions();
std::vector<Completion> EvalCompletions();
std::vector<Completion> ExportCompletions();
std::vector<Completion> PrepareCompletions();
std::vector<Completion> ReportCompletions();

// "CONFIG [key=value...]", the words of `command`. The error says which word is wrong, and where the help is.
struct ConfigWords {
  std::string path;
  Words overrides;
};
absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words);
// "[CHECKPOINT|CONFIG] [key=value...]": the path is empty if there is none.
absl::StatusOr<ConfigWords> SplitModelWords(const std::string& command, const Words& words);
bool AsksForHelp(const Words& words);

}  // namespace weft
