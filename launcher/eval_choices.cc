#include "launcher/eval_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "weft/core/host/message.h"
#include "weft/train/config/config_check.h"
#include "weft/train/infer/choice_scores.h"
#include "weft/train/infer/source.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/io/durable.h"
#include "weft/train/io/output_path.h"
#include "weft/train/preflight/agreement.h"

namespace weft {
namespace {

// The inputs that a rank loads from its arguments and files.
struct Job {
  ModelSource source;
  std::vector<ChoiceItem> items;
  std::vector<EndingTokens> endings;
};

absl::Status Refuse(const std::string& what) { return absl::InvalidArgumentError(what); }

// Refuses to replace a file that holds anything but the results of such a command.
absl::Status CheckOut(const ChoiceRequest& request) {
  const std::string& out = request.out;
  std::error_code error;
  if (out.empty()) return absl::OkStatus();
  if (std::filesystem::exists(out, error)) {
    bool file = std::filesystem::is_regular_file(out, error);
    std::string begin(std::string_view(kChoiceStart).size(), '\0');
    if (file) std::ifstream(out, std::ios::binary).read(begin.data(), std::streamsize(begin.size()));
    bool empty = file && std::filesystem::file_size(out, error) == 0;
    if (!file || (!empty && begin != kChoiceStart))
      return Refuse(
          fmt::format("command line: out: {} is there and holds no choices; give another file, or remove it", out));
  }
  absl::Status status = CheckOutputFile(out);
  return status.ok() ? status : Refuse("command line: out: " + std::string(status.message()));
}

absl::StatusOr<Job> Load(const Words& words, const ChoiceRequest& request, const Ranks& ranks) {
  absl::StatusOr<ConfigWords> split = SplitModelWords("eval", words);
  // OpenSource is collective, so all ranks return here if the arguments of one are wrong.
  if (absl::Status s = FirstFault(ranks, split.status()); !s.ok()) return s;
  absl::StatusOr<ModelSource> source = OpenSource(split->path, split->overrides, ranks, MeshFill::kData);
  if (!source.ok()) return source.status();
  const Config& config = source->config;
  if (config.train.objective != TrainObjective::kNext)
    return RefuseKey(config, "model.family",
                     fmt::format("expected a family that gives the next token, got {}, which gives other ones",
                                 config.model.family));
  absl::StatusOr<Tokenizer> tokenizer = TokenizerOf(*source);
  if (!tokenizer.ok()) return tokenizer.status();
  if (absl::Status s = ResolveVocab(source->config, tokenizer->vocab()); !s.ok()) return s;
  absl::StatusOr<std::vector<ChoiceItem>> items = ReadChoices(request.choices);
  if (!items.ok()) return items.status();
  auto endings = EncodeChoices(*items, *tokenizer, config.model.context, request.choices);
  if (!endings.ok()) return endings.status();
  if (absl::Status s = ranks.rank == 0 ? CheckOut(request) : absl::OkStatus(); !s.ok()) return s;
  return Job{*std::move(source), *std::move(items), *std::move(endings)};
}

// Returns a line that differs between ranks that have read different items.
std::string LineOf(const Job& job) {
  uint32_t sum = 0;
  for (const EndingTokens& e : job.endings) {
    sum = Crc32c(std::as_bytes(std::span(e.tokens)), sum);
    sum = Crc32c(std::as_bytes(std::span(&e.count, 1)), sum);
  }
  return fmt::format("choices: {} endings with the checksum {:08x}\n", job.endings.size(), sum);
}

absl::Status WriteResults(const std::string& out, const std::vector<ChoiceItem>& items,
                          const std::vector<Choice>& choices) {
  std::string text;
  for (size_t i = 0; i < items.size(); i++) text += JsonLine(items[i], choices[i]) + '\n';
  absl::Status status = WriteFile(out, text);
  return status.ok() ? status : absl::AbortedError("weft: " + std::string(status.message()));
}

absl::Status Measure(const Job& job, const ChoiceRequest& request, const RankMesh& rank) {
  const Config& config = job.source.config;
  StepOptions options = ChoiceOptions(config, rank.mesh->shape(), job.endings);
  LoadedModel model(config, options, ChoiceProgram(options), *rank.context, *rank.mesh, rank.device);
  if (absl::Status s = model.Load(job.source); !s.ok()) return s;
  bool speaks = rank.context->rank() == 0;
  EvalProgress shown;
  auto start = std::chrono::steady_clock::now();
  std::vector<double> sums = LogLikelihoods(model, job.endings, [&](const ProgressRecord& now) {
    if (speaks && shown.IsDue(now)) PrintStderr("{}\n", ProgressText(now));
  });
  if (std::any_of(sums.begin(), sums.end(), [](double sum) { return !std::isfinite(sum); }))
    return absl::AbortedError(
        "weft: a log-likelihood is not finite; the weights, or what precision.compute makes of them, are of no use; "
        "executor=interpret names the first op that makes a NaN");
  std::vector<Choice> choices = ChoicesOf(job.items, sums);
  ChoiceRecord record = RecordOf(job.items, choices);
  for (const EndingTokens& ending : job.endings) record.tokens += ending.count;
  record.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  absl::Status written =
      speaks && !request.out.empty() ? WriteResults(request.out, job.items, choices) : absl::OkStatus();
  if (absl::Status s = FirstFault(rank.mesh->World(), written); !s.ok()) return s;
  if (speaks) PrintStdout("{}\n", request.json ? JsonLine(record) : TextOf(record));
  return absl::OkStatus();
}

}  // namespace

int EvalChoices(RankJob& mine, const Words& words, const ChoiceRequest& request) {
  Ranks ranks = RanksOf(mine.bootstrap);
  absl::StatusOr<Job> job = Load(words, request, ranks);
  if (!AllOk(mine.bootstrap, job.status())) return 2;
  if (!AllOk(mine.bootstrap, CheckSameConfig(job->source.config, LineOf(*job), ranks))) return 2;
  if (mine.bootstrap.rank() == 0) PrintStderr("{}\n", fmt::join(job->source.notes, "\n"));
  std::optional<RankMesh> rank = MakeRankMesh(mine, job->source.config);
  if (!rank) return 2;
  return ExitCode(mine, Measure(*job, request, *rank));
}

}  // namespace weft
