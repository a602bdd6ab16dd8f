// weft generate: prints text from a trained model.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "launcher/rank.h"
#include "weft/core/host/message.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/dist/start/launched.h"
#include "weft/train/config/config_check.h"
#include "weft/train/infer/generate.h"
#include "weft/train/log/metrics.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/preflight/agreement.h"

namespace weft {
namespace {

constexpr const char* kHelp =
    R"(usage: weft generate [CHECKPOINT|CONFIG] [prompt="..."] [tokens=200] [temperature=1] [top_k=0] [top_p=1]
                     [greedy=false] [seed=1] [key=value...]

Prints text that a trained model writes, after the prompt, as it grows.
CHECKPOINT is the folder of a checkpoint, or one that holds some: then the newest whole one is taken. CONFIG takes the
newest of its checkpoint.dir up to its train.steps, or published weights by model.init. Without either the run in runs/
that saved last is taken, and a line says which.

  weft generate runs/quickstart prompt="// The " tokens=300 temperature=0.8
  weft generate top_k=40 seed=7 ranks=2

temperature  sharpens the distribution below 1 and flattens it above; 0: greedy
top_k, top_p draw from the k likeliest tokens alone (0: all), and of these from the likeliest that make up share p
greedy       takes the token of the largest logit each time, the lowest of equal ones
seed         the same seed gives the same text, on any number of ranks
ranks        starts so many ranks, with mpirun
key=value    overrides a key of the config, e.g. device=cpu or precision.compute=f64

Text goes to stdout, all else to stderr. Exit code: 0 done, 2 bad usage or config, 1 failed.
)";

// The inputs that a rank loads from its arguments and files.
struct Job {
  GenerateOptions options;
  ModelSource source;
  Tokenizer tokenizer;
  std::vector<int32_t> prompt;
};
absl::StatusOr<Job> Load(Words words, const Ranks& ranks) {
  absl::StatusOr<GenerateOptions> options = TakeGenerateOptions(words);
  absl::StatusOr<ConfigWords> split = options.ok() ? SplitModelWords("generate", words) : options.status();
  // OpenSource is collective, so all ranks return here if the arguments of one are wrong.
  if (absl::Status s = FirstFault(ranks, split.status()); !s.ok()) return s;
  absl::StatusOr<ModelSource> source = OpenSource(split->path, split->overrides, ranks, MeshFill::kTensor);
  if (!source.ok()) return source.status();
  if (source->config.train.objective == TrainObjective::kMasked)
    return absl::InvalidArgumentError(
        PlaceOf(source->config, "model.family") +
        fmt::format(
            "expected a family that gives the next token, got {}, which gives masked ones; weft eval measures it",
            source->config.model.family));
  absl::StatusOr<Tokenizer> tokenizer = TokenizerOf(*source);
  if (!tokenizer.ok()) return tokenizer.status();
  if (absl::Status s = ResolveVocab(source->config, tokenizer->vocab()); !s.ok()) return s;
  absl::StatusOr<std::vector<int32_t>> prompt = PromptTokens(*options, *tokenizer, source->config.model.context);
  if (!prompt.ok()) return prompt.status();
  return Job{*std::move(options), *std::move(source), *std::move(tokenizer), *std::move(prompt)};
}

absl::Status Write(const Job& job, const RankMesh& rank) {
  const Config& config = job.source.config;
  StepOptions options = NextTokenOptions(config, rank.device);
  LoadedModel model(config, options, NextTokenProgram(options), *rank.context, *rank.mesh, rank.device);
  if (absl::Status s = model.Load(job.source); !s.ok()) return s;
  bool writes = rank.context->rank() == 0;
  absl::Status printed;
  bool terminal = isatty(STDOUT_FILENO);  // a terminal would execute escape sequences that the model generates
  auto print = [&](std::string_view text) { printed.Update(terminal ? Print(text) : PrintBytes(text)); };
  // mpirun of Open MPI 5 forwards small pieces out of their order, so there the text is printed as a whole.
  bool streams = !IsLaunched() || MpiVersion().find(" v5.") == std::string::npos;
  std::string whole;
  auto show = [&](std::string_view text) {
    if (writes && streams) print(text);
    if (!streams) whole += text;
  };
  auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::vector<int32_t>> tokens = Generate(model, job.tokenizer, job.prompt, job.options, show);
  show("\n");
  if (writes && !streams) print(whole);
  if (!tokens.ok()) return tokens.status();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (writes)
    PrintStderr("{} tokens in {}, {:.1f} tok/s\n", tokens->size(), DurationText(seconds),
                double(tokens->size()) / seconds);
  if (!printed.ok()) printed = absl::AbortedError("weft: " + std::string(printed.message()));
  return FirstFault(rank.mesh->World(), printed);
}

int Run(RankJob& mine, const Words& words) {
  Bootstrap& bootstrap = mine.bootstrap;
  Ranks ranks = RanksOf(bootstrap);
  absl::StatusOr<Job> job = Load(words, ranks);
  if (!AllOk(bootstrap, job.status())) return 2;
  if (!AllOk(bootstrap, CheckSameConfig(job->source.config, ToLines(job->options), ranks))) return 2;
  if (bootstrap.rank() == 0) PrintStderr("{}\n", fmt::join(job->source.notes, "\n"));
  std::optional<RankMesh> rank = MakeRankMesh(mine, job->source.config);
  if (!rank) return 2;
  return ExitCode(mine, Write(*job, *rank));
}

}  // namespace

std::vector<Completion> GenerateCompletions() {
  GenerateOptions options;
  int64_t seed = 0;
  return CompletionsOf(OptionsOf(options, seed));
}

int GenerateCommand(const Words& words) { return RunOnRank(words, kHelp, Run); }

}  // namespace weft
