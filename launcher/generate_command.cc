// weft generate: prints text from a trained model.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "launcher/rank.h"
#include "launcher/repl.h"
#include "weft/core/host/message.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/dist/start/launched.h"
#include "weft/dist/start/terminal.h"
#include "weft/train/config/config_check.h"
#include "weft/train/infer/generate.h"
#include "weft/train/log/metrics.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/preflight/agreement.h"

namespace weft {
namespace {

constexpr const char* kHelp =
    R"(usage: weft generate [CHECKPOINT|CONFIG] [prompt="..."]... [prompts=FILE] [tokens=200] [temperature=1] [top_k=0]
                     [top_p=1] [greedy=false] [seed=1] [samples=1] [batch=8] [cache=true] [stop="..."]...
                     [repl=false] [key=value...]

Prints text that a trained model writes, after the prompt, as it grows. A model with an encoder (family marian) writes
a text from the prompt, up to its end, and only that is printed.
CHECKPOINT is the folder of a checkpoint, or one that holds some: then the newest whole one is taken. CONFIG takes the
newest of its checkpoint.dir up to its train.steps, or published weights by model.init. Without either the run in runs/
that saved last is taken (with run=NAME of NAME, NAME-2, NAME-3, ...), and a line says which.

  weft generate runs/quickstart prompt="// The " tokens=300 temperature=0.8
  weft generate top_k=40 seed=7 ranks=2

temperature  sharpens the distribution below 1 and flattens it above; 0: greedy
top_k, top_p draw from the k likeliest tokens only (0: all), and of these from the likeliest that make up share p
greedy       takes the token of the largest logit each time, the lowest of equal ones
seed         the same seed gives the same text, on any number of ranks
samples      writes N texts of each prompt; text i does not depend on N, and text 1 is that of samples=1
batch        writes so many texts at a time; no text depends on it
cache        keeps the keys and values of earlier tokens; false: computes them again for each token
stop         ends a text before this string; may be given several times; \n, \r, \t and \\ are escapes
prompt       prompt=FILE:PATH reads the prompt from a file, with its line ends; several prompts give several texts
prompts      a file with one prompt per line; blank lines are left out
repl         reads lines from stdin; the model continues the text after each; an empty line adds nothing.
             ctrl-C stops a text; ctrl-D, or ctrl-C between texts, ends. A tokens= limit and stop= apply to each line
ranks        starts so many ranks, with mpirun
key=value    overrides a key of the config, e.g. device=cpu or precision.compute=f64

Text goes to stdout, all else to stderr. Exit code: 0 done, 2 bad usage or config, 1 failed.
)";

// The inputs that a rank loads from its arguments and files.
struct Job {
  GenerateOptions options;
  ModelSource source;
  Tokenizer tokenizer;
  std::vector<GenerateOptions> each;         // per prompt
  std::vector<std::vector<int32_t>> tokens;  // of each prompt
};
// Checks what a model that writes from a source needs.
absl::Status CheckSource(const GenerateOptions& options) {
  if (!options.pairs) return absl::OkStatus();
  for (const GenerateOptions& one : options.EachPrompt()) {
    if (options.repl && !one.prompt.empty())
      return absl::InvalidArgumentError(
          "command line: prompt: has no meaning with repl=true and a model that writes from a source; each line is "
          "one");
    if (!options.repl && one.prompt.empty())
      return absl::InvalidArgumentError(
          "command line: prompt: is required by a model that writes from a source; give the source as prompt=\"...\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<Job> Load(Words words, const Ranks& ranks) {
  absl::StatusOr<GenerateOptions> options = TakeGenerateOptions(words);
  absl::StatusOr<ConfigWords> split = options.ok() ? SplitModelWords("generate", words) : options.status();
  // OpenSource is collective, so all ranks return here if the arguments of one are wrong.
  if (absl::Status s = FirstFault(ranks, split.status()); !s.ok()) return s;
  absl::StatusOr<ModelSource> source = OpenSource(split->path, split->overrides, ranks, MeshFill::kTensor);
  if (!source.ok()) return source.status();
  if (source->config.train.objective == TrainObjective::kMasked)
    return RefuseKey(
        source->config, "model.family",
        fmt::format(
            "expected a family that gives the next token, got {}, which gives other ones; weft eval measures it",
            source->config.model.family));
  absl::StatusOr<Tokenizer> tokenizer = TokenizerOf(*source);
  if (!tokenizer.ok()) return tokenizer.status();
  options->pairs = PairsOf(source->config, *tokenizer);
  int64_t kinds = options->pairs ? options->pairs->kinds() : tokenizer->vocab();
  if (absl::Status s = ResolveVocab(source->config, kinds); !s.ok()) return s;
  if (absl::Status s = CheckSource(*options); !s.ok()) return s;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<GenerateOptions> each = options->EachPrompt();
  for (const GenerateOptions& one : each) {
    absl::StatusOr<std::vector<int32_t>> prompt = PromptTokens(one, *tokenizer, source->config.model.context);
    if (!prompt.ok()) return prompt.status();
    tokens.push_back(*std::move(prompt));
  }
  return Job{*std::move(options), *std::move(source), *std::move(tokenizer), std::move(each), std::move(tokens)};
}

// Prints texts on rank 0's stdout.
class TextOutput {
 public:
  TextOutput(bool writes, ProcessGroup& world) : writes_(writes), world_(world) {}

  void Show(std::string_view text) {
    if (writes_ && streams_) Print(text);
    if (!streams_) whole_ += text;
  }
  // Ends a text. Returns the same error on all ranks if output was lost. Collective.
  absl::Status Finish() {
    if (writes_ && !streams_) Print(whole_);
    whole_.clear();
    absl::Status status = printed_;
    if (!status.ok()) status = absl::AbortedError("weft: " + std::string(status.message()));
    return FirstFault(world_, status);
  }

 private:
  void Print(std::string_view text) { printed_.Update(terminal_ ? weft::Print(text) : PrintBytes(text)); }

  bool writes_;
  ProcessGroup& world_;
  bool terminal_ = TerminalColumns().has_value();  // a terminal would execute escape sequences that the model generates
  // mpirun of Open MPI 5 forwards small pieces out of their order, so there each text is printed as a whole.
  bool streams_ = !IsLaunched() || MpiVersion().find(" v5.") == std::string::npos;
  std::string whole_;
  absl::Status printed_;
};

// Whether a person types the lines: stdin and stdout are a terminal. Of ranks that a launcher started only stdout is
// known.
bool IsTyped() { return TerminalColumns() && (IsLaunched() || isatty(STDIN_FILENO)); }

std::string HeadOf(const Job& job, int64_t text) {
  auto prompts = int64_t(job.each.size()), samples = job.options.samples;
  std::string prompt = prompts > 1 ? fmt::format("prompt {} of {}", text / samples + 1, prompts) : "";
  std::string sample = samples > 1 ? fmt::format("sample {} of {}", text % samples + 1, samples) : "";
  if (prompt.empty() && sample.empty()) return "";
  return fmt::format("--- {}{}{} ---\n", prompt, prompt.empty() || sample.empty() ? "" : ", ", sample);
}

// The functions below return the number of tokens written.

// Writes texts [first, last). The first is shown as it grows, the others when all have ended.
absl::StatusOr<int64_t> WriteBatch(const BoundForward& model, const Job& job, int64_t first, int64_t last,
                                   TextOutput& output) {
  std::vector<std::unique_ptr<TextWriter>> writers;
  std::vector<TextWriter*> each;
  std::vector<ShowText> shows;
  std::vector<std::string> waiting(size_t(last - first));
  for (int64_t text = first; text < last; text++) {
    auto prompt = size_t(text / job.options.samples), at = size_t(text - first);
    writers.push_back(std::make_unique<TextWriter>(model, job.tokenizer, job.tokens[prompt], job.each[prompt],
                                                   text % job.options.samples));
    each.push_back(writers.back().get());
    shows.push_back([&, at](std::string_view piece) {
      if (at == 0) return output.Show(piece);
      waiting[at] += piece;
    });
    shows.back()(HeadOf(job, text));
    writers.back()->ShowPrompt(shows.back());
  }
  absl::StatusOr<int64_t> tokens = WriteTogether(model, each, shows);
  for (std::string& text : waiting) {
    output.Show(text + "\n");
    if (absl::Status s = output.Finish(); !s.ok()) return s;
  }
  return tokens;
}

absl::StatusOr<int64_t> WriteTexts(const BoundForward& model, const Job& job, TextOutput& output) {
  int64_t tokens = 0, rows = model.options.rows;
  for (int64_t first = 0; first < job.options.texts(); first += rows) {
    auto made = WriteBatch(model, job, first, std::min(first + rows, job.options.texts()), output);
    if (!made.ok()) return made.status();
    tokens += *made;
  }
  return tokens;
}

absl::StatusOr<int64_t> WriteReplies(const BoundForward& model, const Job& job, const Ranks& ranks,
                                     TextOutput& output) {
  TextWriter writer(model, job.tokenizer, job.tokens[0], job.options);
  ReplOutput repl{.show = [&](std::string_view text) { output.Show(text); },
                  .finish = [&] { return output.Finish(); },
                  .asks = IsTyped()};
  writer.ShowPrompt(repl.show);
  if (!job.options.prompt.empty() && !job.options.prompt.ends_with('\n')) repl.show("\n");
  return Converse(writer, ranks, repl);
}

absl::Status Write(const Job& job, const RankMesh& rank, const Ranks& ranks) {
  const Config& config = job.source.config;
  StepOptions options = NextTokenOptions(config, rank.device, std::min(job.options.batch, job.options.texts()));
  const SamplerOptions& sampler = job.options.sampler;
  int64_t kinds = job.options.pairs ? job.options.pairs->pad : job.tokenizer.vocab();
  int64_t best_of = sampler.greedy || sampler.temperature == 0 ? kinds : 0;
  LoadedModel model(config, options, NextTokenPrograms(options, job.options.cache, best_of), *rank.context, *rank.mesh,
                    rank.device);
  if (absl::Status s = model.Load(job.source); !s.ok()) return s;
  bool writes = rank.context->rank() == 0;
  TextOutput output(writes, rank.mesh->World());
  auto start = std::chrono::steady_clock::now();
  absl::StatusOr<int64_t> tokens =
      job.options.repl ? WriteReplies(model, job, ranks, output) : WriteTexts(model, job, output);
  if (!tokens.ok()) return tokens.status();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (writes && !job.options.repl)  // a conversation waits for its lines, so its speed would mean nothing
    PrintStderr("{} tokens in {}, {:.1f} tok/s\n", *tokens, DurationText(seconds), double(*tokens) / seconds);
  return absl::OkStatus();
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
  return ExitCode(mine, Write(*job, *rank, ranks));
}

}  // namespace

std::vector<Completion> GenerateCompletions() {
  GenerateOptions options;
  int64_t seed = 0;
  return CompletionsOf(OptionsOf(options, seed));
}

int GenerateCommand(const Words& words) {
  return RunOnRank(words, kHelp, Run, AsksForRepl(words) ? RankControl::kConverse : RankControl::kEnd);
}

}  // namespace weft
