// The program `weft`: dispatches to one file per command.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "launcher/command.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/message.h"
#include "weft/train/io/suggest.h"
#include "weft/train/log/standard_output.h"

namespace weft {
namespace {

struct Command {
  const char* name;
  int (*run)(const Words&);
  const char* line;
  bool alone = false;  // does by itself what several ranks would do several times, in each other's way
};
constexpr Command kCommands[] = {
    {"train", TrainCommand, "train a model as a YAML config says, alone or under mpirun"},
    {"generate", GenerateCommand, "print text that a trained model writes"},
    {"eval", EvalCommand, "print the loss of a trained model on validation data"},
    {"plan", PlanCommand, "print collectives, memory and FLOPs of a config for any number of ranks", true},
    {"prepare", PrepareCommand, "turn text into token shards, a tokenizer and a config that trains on them", true},
    {"doctor", DoctorCommand, "say whether this host, or the hosts of a job, can run Weft"},
    {"report", ReportCommand, "draw a run from its log, as a page for a browser", true},
    {"export", ExportCommand, "write the weights of a checkpoint as Hugging Face's transformers reads them", true},
};

int Usage(std::FILE* out, int code) {
  PrintMessage(out, "usage: weft COMMAND ...\n\n");
  for (const Command& c : kCommands) PrintMessage(out, fmt::format("  {:8} {}\n", c.name, c.line));
  PrintMessage(out, "\n  weft COMMAND --help says more; weft --version prints the version.\n");
  return code;
}

// One of several that mpirun or srun has started; the first says so for all.
bool RefusedAsRanks(const std::string& name) {
  for (auto [size, rank] : {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}}) {
    const char *ranks = std::getenv(size), *mine = std::getenv(rank);
    if (!ranks || std::atoi(ranks) <= 1) continue;
    if (mine && std::atoi(mine) == 0)
      PrintStderr("weft {0}: expected to run alone, got {1} ranks; start it without mpirun\n", name, ranks);
    return true;
  }
  return false;
}

int Main(int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  if (words.empty()) return Usage(stderr, 2);
  if (words[0] == "--version") {
    PrintStdout("weft {}\n", WEFT_VERSION);
    return 0;
  }
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") return Usage(stdout, 0);
  for (const Command& c : kCommands)
    if (words[0] == c.name) return c.alone && RefusedAsRanks(c.name) ? 2 : c.run(Words(words.begin() + 1, words.end()));
  std::vector<std::string> names;
  for (const Command& c : kCommands) names.emplace_back(c.name);
  std::string nearest = Nearest(words[0], names);
  PrintStderr("weft: unknown command {:?}{}\n", words[0],
              nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  return Usage(stderr, 2);
}

// Output that was lost is a failure, where nothing else was said.
int Checked(int argc, char** argv) {
  int code = 1;
  std::string fault;
  try {
    code = Main(argc, argv);
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
