// weft bench: measures how fast the parts of a run are on this host or job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "launcher/bench/bench_config.h"
#include "launcher/bench/bench_job.h"
#include "launcher/rank.h"
#include "weft/core/host/message.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft bench KIND [key=value...] [ranks=N] [--json]

Times one kind of work, a line per case, after warm-up and on random data: the median, the least and the 90th percentile
of the repeats, of the slowest rank, by the device's own clock. It uses what a run uses: the same groups, kernels,
compiler and executors.

  weft bench collective ranks=2 op=all_reduce,all_gather bytes=4K..4M
  weft bench gemm m=1024 n=4096 k=1024 dtype=f32,bf16
  weft bench step config=configs/quickstart.yaml executor=compiled ranks=2 mesh.dp=2 --json

Keys with several values take them with commas between them.
)";

constexpr const char* kHelpEnd = R"(
--json prints one JSON object per line: kind, case, device, device_name, ranks, threads, dtype, labels, sizes,
median_ms, min_ms, p90_ms, repeats, calls (in a repeat), processor_ms (of a call, all threads of rank 0), rate (of one
rank, or null), unit, more, host, version, commit, unix_time.
Exit code: 0 done, 2 bad usage or config, 1 failed or a result was wrong.
)";

struct BenchKind {
  const char* name;
  const char* line;
  absl::Status (*run)(const BenchJob& job);
};
constexpr BenchKind kKinds[] = {
    {"collective",
     "time and bandwidth of collectives, as nccl-tests define them; results are checked. On a GPU as the\n"
     "               host issues them (eager) and as a recording replays them (graph)",
     RunCollectiveBench},
    {"gemm", "matrix products, [m, k] x [k, n]", RunGemmBench},
    {"sdpa", "scaled dot product attention; FLOPs as by FlashAttention, half of them with a causal mask", RunSdpaBench},
    {"encoder",
     "a transformer encoder on a batch with padding: with a padding mask (plain) and on packed rows, in turns.\n"
     "               The outputs are compared. Rates are of real tokens",
     RunEncoderBench},
    {"step", "the training step of a config, without data and checkpoints; takes any key of the config", RunStepBench},
    {"dispatch", "what an op on small tensors costs, in a chain of 100", RunDispatchBench},
    {"copy", "an elementwise op, which is bound by memory; the smallest sizes show the fixed cost of an op",
     RunCopyBench},
    {"rates",
     "all that weft plan needs to predict the step of a config: its batches of kernels and its collectives, each\n"
     "               distinct one by itself, and products, copies and collectives of other sizes. Takes any key of "
     "the\n"
     "               config. weft plan reads the lines of --json",
     RunRatesBench},
};

std::string KeyLines(const std::vector<Option>& options) {
  std::string lines;
  for (const Option& option : options)
    if (option.form == Option::kAny) lines += fmt::format("    {:<10} {}\n", option.field.key, option.field.help);
  return lines;
}

std::string HelpText() {
  std::string text = kHelp;
  BenchWords defaults;
  for (const BenchKind& kind : kKinds) {
    text += fmt::format("\n  {:<10}   {}\n{}", kind.name, kind.line, KeyLines(BenchOptions(kind.name, defaults)));
    if (std::vector<std::string> keys = BenchConfigKeys(kind.name); !keys.empty())
      text += fmt::format("    of the config: {}\n", fmt::join(keys, ", "));
  }
  return text + fmt::format("\n  of every kind\n{}", KeyLines(BenchCommonOptions(defaults))) + kHelpEnd;
}

int Run(RankJob& mine, const Words& words) {
  Bootstrap& bootstrap = mine.bootstrap;
  absl::StatusOr<BenchWords> parsed = ParseBenchWords(words);
  if (!AllOk(bootstrap, parsed.status())) return 2;
  std::vector<std::string> notes;
  absl::StatusOr<Config> config = BenchConfig(*parsed, bootstrap.world_size(), notes);
  if (!AllOk(bootstrap, config.status())) return 2;
  for (const std::string& note : notes) mine.notices.Say(note);
  std::optional<RankMesh> rank = MakeRankMesh(mine, *config);
  if (!rank) return 2;
  const BenchKind& kind = *std::find_if(std::begin(kKinds), std::end(kKinds),
                                        [&](const BenchKind& one) { return parsed->kind == one.name; });
  BenchJob job{*parsed, *config, *rank->context, *rank->mesh, rank->device};
  return ExitCode(mine, kind.run(job));
}

}  // namespace

// A key that several kinds have is listed once.
std::vector<Completion> BenchCompletions() {
  std::vector<Completion> completions;
  std::set<std::string> seen;
  auto add = [&](const std::vector<Option>& options) {
    for (Completion& c : CompletionsOf(options))
      if (seen.insert(c.name).second) completions.push_back(std::move(c));
  };
  BenchWords words;
  for (const std::string& kind : BenchKindNames()) {
    completions.push_back({.name = kind});
    add(BenchOptions(kind, words));
  }
  add(BenchCommonOptions(words));
  return completions;
}

int BenchCommand(const Words& words) {
  std::string help = HelpText();
  return RunOnRank(words, help.c_str(), Run);
}

}  // namespace weft
