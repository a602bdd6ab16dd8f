#include "weft/train/infer/choice_scores.h"

#include <algorithm>
#include <chrono>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/rounding.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/plans/mesh_axes.h"
#include "weft/train/config/model_of.h"

namespace weft {
namespace {

std::vector<NamedValue> EndingSums(Model& model, const StepOptions& o) {
  Sharding batch = BatchPlacement(o.model.mesh);
  Var tokens = Leaf(entry::kTokens, DType::kI32, {o.rows, o.tokens}, batch);    // [B, T]
  Var targets = Leaf(entry::kTargets, DType::kI32, {o.rows, o.tokens}, batch);  // [B, T]
  Var logits = model(tokens);                                                   // [B, T, V]
  ModuleScope scope("loss");
  Var losses = CrossEntropy(logits, targets, {.ignore_index = o.loss.ignore_index});  // [B, T]
  return {{"sums", -ReduceSum(Cast(losses, DType::kF64), 1)}};                        // [B]
}

// Writes this rank's rows of a batch into the State.
class EndingSlots {
 public:
  explicit EndingSlots(LoadedModel& model)
      : state_(model.state()),
        rows_(state_.View(entry::kTokens).dim(0)),
        length_(model.options().tokens),
        ignored_(int32_t(model.options().loss.ignore_index)) {}

  // `batch` is a whole batch, or the rest of the endings.
  void Fill(std::span<const EndingTokens> batch) {
    size_t elements = size_t(state_.At(entry::kTokens).local.num_elements());
    tokens_.assign(elements, 0);
    targets_.assign(elements, ignored_);
    for (int64_t row = 0; row < rows_.extent && rows_.offset + row < int64_t(batch.size()); row++)
      FillRow(batch[size_t(rows_.offset + row)], row * length_);
    Write(entry::kTokens, tokens_);
    Write(entry::kTargets, targets_);
  }

 private:
  // Position t holds token t, and token t + 1 as its target if that is the ending's.
  void FillRow(const EndingTokens& ending, int64_t begin) {
    auto last = int64_t(ending.tokens.size()) - 1;
    for (int64_t t = 0; t < last; t++) {
      tokens_[size_t(begin + t)] = ending.tokens[size_t(t)];
      if (t >= last - ending.count) targets_[size_t(begin + t)] = ending.tokens[size_t(t + 1)];
    }
  }

  void Write(const char* slot, const std::vector<int32_t>& values) {
    state_.device().Copy(state_.At(slot).local.data(), values.data(), values.size() * sizeof(int32_t));
    state_.device().Synchronize();  // before the host's memory changes
  }

  State& state_;
  DimView rows_;
  int64_t length_;
  int32_t ignored_;
  std::vector<int32_t> tokens_, targets_;
};

int64_t Largest(const std::vector<double>& values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

}  // namespace

StepOptions ChoiceOptions(const Config& config, const MeshShape& mesh, std::span<const EndingTokens> endings) {
  StepOptions o = StepOptionsOf(config, mesh);
  int64_t longest = 1, batch = o.rows * o.tokens, ranks = RanksWith(mesh, &MeshAxis::shards_batch);
  for (const EndingTokens& ending : endings) longest = std::max(longest, int64_t(ending.tokens.size()) - 1);
  o.tokens = longest;
  // As many rows on each rank, and no more than there are endings.
  int64_t most = CeilDiv(int64_t(endings.size()), ranks);
  o.rows = std::clamp<int64_t>(batch / longest / ranks, 1, most) * ranks;
  return o;
}

ForwardProgram ChoiceProgram(const StepOptions& o) {
  Sharding batch = BatchPlacement(o.model.mesh);
  return {RandomPhase::kEval,
          EndingSums,
          {{entry::kTokens, EntryKind::kSlot, DType::kI32, {o.rows, o.tokens}, batch},
           {entry::kTargets, EntryKind::kSlot, DType::kI32, {o.rows, o.tokens}, batch}}};
}

std::vector<double> LogLikelihoods(LoadedModel& model, std::span<const EndingTokens> endings,
                                   const std::function<void(const ProgressRecord&)>& progress) {
  auto start = std::chrono::steady_clock::now();
  auto rows = size_t(model.options().rows);
  EndingSlots slots(model);
  std::vector<double> sums;
  while (sums.size() < endings.size()) {
    size_t count = std::min(rows, endings.size() - sums.size());
    slots.Fill(endings.subspan(sums.size(), count));
    Tensor batch = model.Run()[0];  // [B]
    sums.insert(sums.end(), batch.as<double>(), batch.as<double>() + count);
    progress({.done = int64_t(sums.size()),
              .all = int64_t(endings.size()),
              .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  return sums;
}

std::vector<Choice> ChoicesOf(const std::vector<ChoiceItem>& items, std::span<const double> log_likelihoods) {
  std::vector<Choice> choices;
  for (const ChoiceItem& item : items) {
    auto mine = log_likelihoods.first(item.endings.size());
    log_likelihoods = log_likelihoods.subspan(mine.size());
    Choice choice{.log_likelihoods = {mine.begin(), mine.end()}};
    std::vector<double> per_byte;
    for (size_t i = 0; i < mine.size(); i++) per_byte.push_back(mine[i] / double(item.endings[i].size()));
    choice.by_sum = Largest(choice.log_likelihoods);
    choice.by_byte = Largest(per_byte);
    choices.push_back(std::move(choice));
  }
  return choices;
}

ChoiceRecord RecordOf(const std::vector<ChoiceItem>& items, const std::vector<Choice>& choices) {
  ChoiceRecord record{.items = int64_t(items.size())};
  for (size_t i = 0; i < items.size(); i++) {
    record.acc += choices[i].by_sum == items[i].label;
    record.acc_norm += choices[i].by_byte == items[i].label;
    record.endings += int64_t(items[i].endings.size());
  }
  record.acc /= double(items.size());
  record.acc_norm /= double(items.size());
  return record;
}

std::string JsonLine(const ChoiceRecord& r) {
  return fmt::format(
      R"({{"event":"choices","acc":{:.17g},"acc_norm":{:.17g},"items":{},"endings":{},"tokens":{},"ms":{:.17g}}})",
      r.acc, r.acc_norm, r.items, r.endings, r.tokens, r.ms);
}

std::string TextOf(const ChoiceRecord& r) {
  return fmt::format("acc {:.4f}, acc_norm {:.4f} | {} items, {} endings of {} tokens in {}", r.acc, r.acc_norm,
                     r.items, r.endings, CountText(r.tokens), DurationText(r.ms / 1000));
}

std::string JsonLine(const ChoiceItem& item, const Choice& choice) {
  return fmt::format(R"({}{},"label":{},"choice":{},"choice_norm":{},"log_likelihoods":[{:.17g}]}})", kChoiceStart,
                     item.line, item.label, choice.by_sum, choice.by_byte, fmt::join(choice.log_likelihoods, ","));
}

}  // namespace weft
