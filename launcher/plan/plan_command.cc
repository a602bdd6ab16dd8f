// weft plan: prints what a config would do on any number of ranks. Needs no devices, no data and no other ranks.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/command.h"
#include "launcher/plan/plan_report.h"
#include "launcher/plan/search.h"
#include "launcher/vocab.h"
#include "weft/core/host/message.h"
#include "weft/core/host/notice.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/unused_keys.h"
#include "weft/train/data/data.h"
#include "weft/train/preflight/run_rules.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft plan CONFIG [ranks=N] [rates=FILE] [key=value...] [--verbose | --json]
       weft plan --search CONFIG devices=N rates=FILE [memory=GIB] [key=value...] [--verbose | --json]

Prints what a training step would do on a mesh of N ranks (default: the product of the mesh): the parameters, the memory of
a rank by category and where it is fullest, the FLOPs of its products, and the collectives by axis and by module, with the
bytes per rank as handed over. Blocks that communicate alike are shown once. --verbose adds every collective (op, axis,
bytes, type, shape, phase, runs per step, module, line), exact bytes and, with rates, the time of every kernel; --json
prints all of it for programs.
device=cuda plans with the kernels of a GPU, in every build; else the CPU's are planned with.
rates=FILE predicts the time of the step. weft bench rates config=CONFIG --json > FILE measures the rates of a device.
--search predicts the step on every mesh of N devices, with what parallel.fsdp, parallel.sequence_parallel and
parallel.overlap can be, and, where a step needs more than GIB, with train.recompute and
smaller micro-batches. It prints the fastest options of each mesh, with the keys to paste, or why a mesh is refused;
--verbose and --json print all. Keys that are given are kept.
Needs neither devices nor data. Text that is there is counted as tokens in memory, estimated from parts of it. Where
tokenizer chars would take model.vocab from a text that is not here, a note says what is assumed.

  weft plan configs/quickstart.yaml ranks=8 mesh.dp=4 mesh.tp=2
  weft plan configs/gpt2_124m.yaml device=cuda train.micro_batch=16
  weft plan --search configs/llama_1b.yaml device=cuda devices=8 memory=80 rates=h100.jsonl
)";

// A search over more ranks would take minutes, and its rates could not be measured on one host.
constexpr double kMaxDevices = 64;

struct Request {
  int64_t ranks = 0;  // 0: the product of the mesh
  std::string rates;
  int64_t devices = 0;  // 0: not given
  double memory = 0;
  bool search = false;
  bool verbose = false, json = false;
};

std::vector<Option> OptionsOf(Request& request) {
  return {
      {{.key = "ranks", .help = "ranks to plan for", .bounds = {.low = 1, .high = double(kMaxRanks)}}, &request.ranks},
      {{.key = "rates", .help = "the file of weft bench rates by which the step is timed"}, &request.rates},
      {{.key = "search", .help = "name the fastest meshes and options"}, &request.search, Option::kFlag},
      {{.key = "devices", .help = "ranks of the search", .bounds = {.low = 1, .high = kMaxDevices}}, &request.devices},
      {{.key = "memory", .help = "GiB of a device that a step may need", .bounds = {.low = 0, .high = 1e6}},
       &request.memory},
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

// Plans one step, and prints what it does.
absl::Status PlanOne(const Request& request, const ConfigWords& words, std::vector<std::string>& notes) {
  absl::StatusOr<Config> config = Load(words, request.ranks, notes);
  if (!config.ok()) return config.status();
  PlannedStep planned(*config);
  PlanReport report = MakePlanReport(*config, planned);
  if (!request.rates.empty()) {
    absl::StatusOr<RatesFile> file = ReadRates(request.rates);
    if (!file.ok()) return file.status();
    if (absl::Status s = AddTime(planned, *file, report); !s.ok()) return s;
    if (std::string note = NoteOnRanks(*file, config->mesh.ranks()); !note.empty()) notes.push_back(std::move(note));
  }
  PrintStdout("{}", request.json ? ToJson(report) : ToText(report, request.verbose));
  return absl::OkStatus();
}

absl::Status CheckSearch(const Request& request) {
  auto missing = [](const char* what) {
    return absl::InvalidArgumentError(
        fmt::format("weft plan: --search needs {}\nweft plan --help says how to use it", what));
  };
  if (!request.search && (request.devices || request.memory > 0))
    return absl::InvalidArgumentError(
        "weft plan: devices and memory are for --search; use ranks=N, and device.memory=GIB\nweft plan --help says how "
        "to "
        "use it");
  if (!request.search) return absl::OkStatus();
  if (request.devices == 0) return missing("devices=N");
  if (request.rates.empty()) return missing("rates=FILE, which weft bench rates config=CONFIG --json makes");
  if (request.ranks != 0) return missing("devices=N, and not ranks=N");
  return absl::OkStatus();
}

// Plans the step on many meshes, and prints the fastest.
absl::Status PlanMany(const Request& request, const ConfigWords& words, std::vector<std::string>& notes) {
  absl::StatusOr<RatesFile> file = ReadRates(request.rates);
  if (!file.ok()) return file.status();
  absl::StatusOr<Config> config = LoadConfig(words.path, words.overrides, RunRules());
  if (!config.ok()) return config.status();
  SearchRequest search{words.overrides, request.devices, request.memory > 0 ? request.memory : config->device_memory};
  std::vector<std::string> of_all;  // notes of the candidates
  absl::StatusOr<SearchResult> result = Search(*config, search, *file, [&](const Words& overrides) {
    return Load({words.path, overrides}, request.devices, of_all);
  });
  if (!result.ok()) return result.status();
  PrintStdout("{}", request.json ? ToJson(*result) : ToText(*result, search, request.verbose));
  notes = config->notes;
  if (std::string note = NoteOnRanks(*file, request.devices); !note.empty()) notes.push_back(std::move(note));
  return absl::OkStatus();
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
  absl::Status status = split.status();
  std::vector<std::string> notes;
  if (status.ok()) status = CheckSearch(request);
  if (status.ok()) status = request.search ? PlanMany(request, *split, notes) : PlanOne(request, *split, notes);
  if (!status.ok()) {
    PrintStderr("{}\n", std::string(status.message()));
    return 2;
  }
  // Notes go to stderr, so that stdout has only JSON with --json.
  for (const std::string& note : notes) PrintNote("{}", note);
  return 0;
}

}  // namespace weft
