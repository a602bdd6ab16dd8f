// weft eval: prints the validation loss of a trained model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "launcher/eval_choices.h"
#include "launcher/rank.h"
#include "weft/core/host/message.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/infer/evaluate_model.h"
#include "weft/train/preflight/agreement.h"

namespace weft {
namespace {

constexpr const char* kHelp =
    R"(usage: weft eval [CHECKPOINT|CONFIG] [key=value...] [ranks=N] [choices=FILE [out=FILE]] [--json]

Prints the loss of a trained model on the validation data of its config: nats per token, perplexity and, of text, bits per
byte. On the mesh that trained it, it is the trainer's number, bit for bit.
CHECKPOINT is the folder of a checkpoint, or one that holds some: then the newest whole one is taken. CONFIG takes the
newest of its checkpoint.dir up to its train.steps, or published weights by model.init. Without either the run in runs/
that saved last is taken (with run=NAME of NAME, NAME-2, NAME-3, ...), and a line says which.

  weft eval runs/quickstart
  weft eval runs/quickstart/step-000200 data.val=README.md ranks=4

choices=FILE  chooses among endings instead, as HellaSwag asks. Each line of FILE is a JSON object
              {"ctx": "...", "endings": ["...", ...], "label": 0}. Prints acc, the share of items whose label has the
              largest log-likelihood, and acc_norm, by the log-likelihood per byte of the ending
out=FILE      writes a JSON line per item: its log-likelihoods and choices

  weft eval runs/quickstart choices=hellaswag_val.jsonl out=choices.jsonl ranks=4

Any key of the config can be overridden: data.val=PATH, train.eval_batches=N, device=cpu. --json prints one JSON object,
the eval line of a log. Exit code: 0 done, 2 bad usage or config, 1 failed.
)";

struct Request {
  bool json = false;
  std::string data, choices, out;
};

std::vector<Option> OptionsOf(Request& request) {
  return {{{.key = "json", .help = "print the eval line of a log"}, &request.json, Option::kFlag},
          {{.key = "data", .help = "data.val"}, &request.data, Option::kFlag},
          {{.key = "choices", .help = "a file of items with endings"}, &request.choices},
          {{.key = "out", .help = "a file for the result of each item"}, &request.out}};
}

// The inputs that a rank loads from its arguments and files.
struct Job {
  ModelSource source;
  Dataset data;
};

// Uses the tokenizer of the checkpoint, because one that is made from this text would number tokens differently.
absl::StatusOr<Dataset> LoadData(const ModelSource& source) {
  const Config& config = source.config;
  if (config.data.synthetic || config.data.val.empty())
    return RefuseKey(config, "data.val",
                     std::string("is required by weft eval; give a text file, token shards or a folder, e.g. "
                                 "data.val=PATH") +
                         (config.data.synthetic ? " data.synthetic=false" : ""));
  absl::StatusOr<Tokenizer> tokenizer = TokenizerOf(source);
  absl::StatusOr<Dataset> data =
      Dataset::Load(config, {.tokenizer = tokenizer.ok() ? &*tokenizer : nullptr, .train = false});
  if (data.ok() && data->tokenizer() && !tokenizer.ok()) return tokenizer.status();  // token shards need none
  return data;
}

absl::StatusOr<Job> Load(const Words& words, const Ranks& ranks) {
  absl::StatusOr<ConfigWords> split = SplitModelWords("eval", words);
  // OpenSource is collective, so all ranks return here if the arguments of one are wrong.
  if (absl::Status s = FirstFault(ranks, split.status()); !s.ok()) return s;
  absl::StatusOr<ModelSource> source = OpenSource(split->path, split->overrides, ranks, MeshFill::kData);
  if (!source.ok()) return source.status();
  absl::StatusOr<Dataset> data = LoadData(*source);
  if (!data.ok()) return data.status();
  if (absl::Status s = ResolveVocab(source->config, data->tokenizer_vocab()); !s.ok()) return s;
  return Job{*std::move(source), *std::move(data)};
}

std::string LineOf(const EvalRecord& r) {
  std::optional<double> bits = BitsPerByte(r);
  return fmt::format("validation loss {:.4f} nats per token, perplexity {:.4g}{} | {} tokens in {}", r.val_loss,
                     std::exp(r.val_loss), bits ? fmt::format(", {:.4f} bits per byte", *bits) : "",
                     CountText(r.tokens), DurationText(r.ms / 1000));
}

absl::Status Measure(const Job& job, const RankMesh& rank, bool json) {
  const Config& config = job.source.config;
  StepOptions options = StepOptionsOf(config, rank.mesh->shape());
  LoadedModel model(config, options, EvaluationProgram(options), *rank.context, *rank.mesh, rank.device);
  if (absl::Status s = model.Load(job.source); !s.ok()) return s;
  int64_t step = job.source.checkpoint ? job.source.checkpoint->manifest().step : 0;
  EvalProgress shown;
  auto progress = [&](const ProgressRecord& now) {
    if (rank.context->rank() == 0 && shown.IsDue(now)) PrintStderr("{}\n", ProgressText(now));
  };
  EvalRecord record = EvaluateModel(model, job.data, step, progress);
  if (absl::Status s = CheckFinite(record); !s.ok()) return s;
  if (rank.context->rank() == 0) PrintStdout("{}\n", json ? JsonLine(record) : LineOf(record));
  return absl::OkStatus();
}

int Run(RankJob& mine, const Words& words) {
  Bootstrap& bootstrap = mine.bootstrap;
  Words rest = words;
  Request request;
  absl::Status options = TakeOptions(OptionsOf(request), rest).status();
  if (options.ok() && request.choices.empty() && !request.out.empty())
    options = absl::InvalidArgumentError("command line: out: has no meaning without choices=FILE");
  if (!AllOk(bootstrap, options)) return 2;
  if (!request.choices.empty())
    return EvalChoices(mine, rest, {.choices = request.choices, .out = request.out, .json = request.json});
  if (!request.data.empty()) rest.push_back("data.val=" + request.data);
  Ranks ranks = RanksOf(bootstrap);
  absl::StatusOr<Job> job = Load(rest, ranks);
  if (!AllOk(bootstrap, job.status())) return 2;
  if (!AllOk(bootstrap, CheckSameRun(job->source.config, job->data, ranks))) return 2;
  if (bootstrap.rank() == 0) PrintStderr("{}\n", fmt::join(job->source.notes, "\n"));
  std::optional<RankMesh> rank = MakeRankMesh(mine, job->source.config);
  if (!rank) return 2;
  return ExitCode(mine, Measure(*job, *rank, request.json));
}

}  // namespace

std::vector<Completion> EvalCompletions() {
  Request request;
  return CompletionsOf(OptionsOf(request));
}

int EvalCommand(const Words& words) { return RunOnRank(words, kHelp, Run); }

}  // namespace weft
