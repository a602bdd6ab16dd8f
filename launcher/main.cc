// The program `weft`: dispatches to one file per command.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "launcher/command.h"
#include "launcher/completions.h"
#include "launcher/help_keys.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/message.h"
#include "weft/core/host/suggest.h"
#include "weft/dist/start/launched.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/preflight/config_error.h"
#include "weft_commit.h"

namespace weft {
namespace {

constexpr Command kCommands[] = {
    {"train", TrainCommand, "train a model from a YAML config, on one rank or several", Command::kConfig, nullptr,
     true},
    {"generate", GenerateCommand, "print text that a trained model writes", Command::kConfig, GenerateCompletions,
     true},
    {"eval", EvalCommand, "print the loss of a trained model on validation data", Command::kConfig, EvalCompletions,
     true},
    {"plan", PlanCommand, "print collectives, memory and FLOPs of a config for any number of ranks", Command::kConfig,
     PlanCompletions},
    {"bench", BenchCommand, "time collectives, products, attention, training steps and the cost of an op",
     Command::kConfig, BenchCompletions, true},
    {"prepare", PrepareCommand, "turn text into token shards, a tokenizer and a config that trains on them",
     Command::kFiles, PrepareCompletions},
    {"doctor", DoctorCommand, "check whether this host, or the hosts of a job, can run Weft", Command::kFiles,
     RankCompletions, true},
    {"report", ReportCommand, "draw runs or measurements as a page for a browser, or as a picture", Command::kFiles,
     ReportCompletions},
    {"export", ExportCommand, "write the weights of a checkpoint as Hugging Face's transformers reads them",
     Command::kFiles, ExportCompletions},
};

int Usage(std::FILE* out, int code) {
  PrintMessage(out, "usage: weft COMMAND ...\n\n");
  for (const Command& c : kCommands) PrintMessage(out, fmt::format("  {:8} {}\n", c.name, c.line));
  PrintMessage(out,
               "\n  weft help COMMAND          says more about a command; so does weft COMMAND --help\n"
               "  weft help keys [SECTION]   lists the keys of a config, or those of a section; KEY: explains one\n"
               "  weft completions SHELL     prints what makes bash or zsh complete commands, keys and values\n"
               "  weft version               prints the version and the commit\n");
  return code;
}

// Returns whether a launcher started this process as one of several ranks. If so, the first rank prints an error, and
// so does every rank that does not know the number of ranks, as the first one does not know of the others.
bool RefusedAsRanks(const std::string& name) {
  const Launch* launch = FindLaunch();
  if (!launch) return false;
  auto [rank, size] = RankOf(*launch);
  if (std::max(rank + 1, size) <= 1) return false;
  // The exit of any rank ends the job, so the others give the first one time to print.
  if (rank == 0 || size == 0)
    PrintStderr(
        "weft {}: expected to run as one process, got {} ranks; start it without mpirun, srun or torchrun, or unset "
        "{}\n",
        name, size == 0 ? "several" : std::to_string(size), launch->mark);
  else
    std::this_thread::sleep_for(std::chrono::seconds(1));
  return true;
}

const Command* FindCommand(const std::string& name) {
  auto found =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& c) { return name == c.name; });
  return found == std::end(kCommands) ? nullptr : &*found;
}

// The commands that are not in the table.
const Words& OwnCommands() {
  static const Words names = {"help", "version", "completions"};
  return names;
}
bool RunsItself(const std::string& name) { return std::ranges::find(OwnCommands(), name) != OwnCommands().end(); }

int Unknown(const std::string& name) {
  Words names = OwnCommands();
  for (const Command& c : kCommands) names.emplace_back(c.name);
  std::string nearest = Nearest(name, names);
  PrintStderr("weft: unknown command {:?}{}\n", name,
              nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  return Usage(stderr, 2);
}

int Help(const Words& words) {
  if (words.empty()) return Usage(stdout, 0);
  if (words[0] == "keys") return HelpKeys(Words(words.begin() + 1, words.end()));
  if (RunsItself(words[0])) return Usage(stdout, 0);
  const Command* command = FindCommand(words[0]);
  if (!command && NamesKeys(words[0])) return HelpKeys(words);
  return command ? command->run({"--help"}) : Unknown(words[0]);
}

// Runs a command that is not in the table. Returns nullopt if there is no such command.
std::optional<int> RunOwn(const std::string& name, const Words& words) {
  if (name == "version" || name == "--version") {
    PrintStdout("weft {} ({})\n", WEFT_VERSION, kCommit);
    return 0;
  }
  if (name == "help" || name == "--help" || name == "-h") return Help(words);
  if (name == "completions") return CompletionsCommand(kCommands, words);
  return std::nullopt;
}

int Main(int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  if (words.empty()) return Usage(stderr, 2);
  std::string name = words[0];
  words.erase(words.begin());
  if (std::optional<int> code = RunOwn(name, words)) return *code;
  const Command* command = FindCommand(name);
  if (!command) return Unknown(name);
  return !command->on_ranks && RefusedAsRanks(name) ? 2 : command->run(words);
}

// Runs the program. If its output was lost, it fails, unless the command has already reported an error.
int Checked(int argc, char** argv) {
  int code = 1;
  std::string fault;
  try {
    code = Main(argc, argv);
  } catch (const ConfigError& e) {
    code = 2;
    PrintStderr("{}\n", e.what());
  } catch (const std::exception& e) {
    fault = TextOf(e);
  }
  absl::Status printed = CheckPrinted();
  if (!printed.ok() && (code == 0 || !fault.empty()))
    fault += (fault.empty() ? "" : "; ") + std::string(printed.message());
  if (fault.empty()) return code;
  PrintStderr("weft: {}\n", fault);
  return 1;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::ReserveStandardFiles();
  return weft::Checked(argc, argv);
}
