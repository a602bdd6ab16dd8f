// weft plan: prints what a config would do on any number of ranks. Needs no devices, no data and no other ranks.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/command.h"
#include "launcher/plan/plan_report.h"
#include "launcher/vocab.h"
#include "weft/core/host/message.h"
#include "weft/core/host/notice.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/unused_keys.h"
#include "weft/train/data/data.h"
#include "weft/train/preflight/run_rules.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft plan CONFIG [ranks=N] [key=value...] [--verbose | --json]

Prints what a training step would do on a mesh of N ranks (default: the product of the mesh): the parameters, the memory of
a rank by category and where it is fullest, the FLOPs of its products, and the collectives by axis and by module, with the
bytes per rank as handed over. Blocks that communicate alike are shown once. --verbose adds every collective (op, axis,
bytes, type, shape, phase, runs per step, module, line) and exact bytes; --json prints all of it for programs.
device=cuda plans with the kernels of a GPU, in every build; else the CPU's are planned with.
Needs neither devices nor data. Text that is there is counted as tokens in memory, estimated from parts of it. Where
tokenizer chars would take model.vocab from a text that is not here, a note says what is assumed.

  weft plan configs/quickstart.yaml ranks=8 mesh.dp=4 mesh.tp=2
  weft plan configs/gpt2_124m.yaml device=cuda train.micro_batch=16
)";

struct Request {
  int64_t ranks = 0;  // 0: the product of the mesh
  std::string rates;
  bool verbose = false, json = false;
};

std::vector<Option> OptionsOf(Request& request) {
  return {
      {{.key = "ranks", .help = "ranks to plan for", .bounds = {.low = 1, .high = double(kMaxRanks)}}, &request.ranks},
      {{.key = "rates", .help = "the file of weft bench rates by which the step is timed"}, &request.rates},
      {{.key = "verbose", .help = "print every collective, and exact bytes"}, &request.verbose, Option::kFlag},
      {{.key = "json", .help = "print one JSON object"}, &request.json, Option::kFlag}};
}

absl::StatusOr<Config> Load(const ConfigWords& words, int64_t ranks, std::vector<std::string>& notes) {
  absl::StatusOr<Config> config = LoadConfig(words.path, words.overrides, RunRules());
  if (!config.ok()) return config;
  if (ranks == 0) ranks = config->mesh.ranks();
  if (absl::Status s = Resolve(*config, int(ranks)); !s.ok()) return s;
  if (absl::Status s = FillVocab(*config, notes); !s.ok()) return s;
  for (const std::vector<std::string>& lines : {config->notes, UnusedKeys(*config)})
    notes.insert(notes.end(), lines.begin(), lines.end());
  return config;
}

absl::Status AddRates(const std::string& path, const PlannedStep& planned, PlanReport& report) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<RatesFile> file = ReadRates(path);
  return file.ok() ? AddTime(planned, *file, report) : file.status();
}

}  // namespace

std::vector<Completion> PlanCompletions() {
  Request request;
  return CompletionsOf(OptionsOf(request));
}

int PlanCommand(const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  Words rest = words;
  Request request;
  absl::Status options = TakeOptions(OptionsOf(request), rest).status();
  absl::StatusOr<ConfigWords> split = options.ok() ? SplitWords("plan", rest) : options;
  std::vector<std::string> notes;
  absl::StatusOr<Config> config = split.ok() ? Load(*split, request.ranks, notes) : split.status();
  if (!config.ok()) {
    PrintStderr("{}\n", std::string(config.status().message()));
    return 2;
  }
  PlannedStep planned(*config);
  PlanReport report = MakePlanReport(*config, planned);
  if (absl::Status s = AddRates(request.rates, planned, report); !s.ok()) {
    PrintStderr("{}\n", std::string(s.message()));
    return 2;
  }
  PrintStdout("{}", request.json ? ToJson(report) : ToText(report, request.verbose));
  // Notes go to stderr, so that stdout has only JSON with --json.
  for (const std::string& note : notes) PrintNote("{}", note);
  return 0;
}

}  // namespace weft
