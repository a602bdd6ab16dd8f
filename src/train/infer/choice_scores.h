// ChoiceScores: the log-likelihoods of endings, and the choices that a model makes by them.
//
//   StepOptions options = ChoiceOptions(config, mesh.shape(), endings);
//   LoadedModel model(config, options, ChoiceProgram(options), context, mesh, device);
//   absl::Status status = model.Load(source);
//   std::vector<double> log_likelihoods = LogLikelihoods(model, endings);
//   std::vector<Choice> choices = ChoicesOf(items, log_likelihoods);
//
// An ending is a row of a batch, which is sharded over the ranks as training's is. Rows are padded to the longest one.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/train/infer/choices.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/log/metrics.h"

namespace weft {

// Returns options for a batch of as many tokens as a micro-batch of training, but with rows of the length of the
// longest ending with its context.
StepOptions ChoiceOptions(const Config& config, const MeshShape& mesh, std::span<const EndingTokens> endings);
ForwardProgram ChoiceProgram(const StepOptions& options);

// Returns the natural logarithm of the probability of each ending after its context: the sum over its tokens. Requires
// a loaded model with ChoiceProgram. All ranks must call it; all get the same result. `progress` is called after each
// batch.
std::vector<double> LogLikelihoods(
    LoadedModel& model, std::span<const EndingTokens> endings,
    const std::function<void(const ProgressRecord&)>& progress = [](const ProgressRecord&) {});

// What a model chooses for one item. The first of equal endings is chosen.
struct Choice {
  std::vector<double> log_likelihoods;  // of the endings
  int64_t by_sum = 0;                   // the ending with the largest log-likelihood
  int64_t by_byte = 0;                  // the one with the largest log-likelihood per byte of the ending in UTF-8
};
// `log_likelihoods` are those of all endings of all items, in order.
std::vector<Choice> ChoicesOf(const std::vector<ChoiceItem>& items, std::span<const double> log_likelihoods);

struct ChoiceRecord {
  double acc = 0, acc_norm = 0;  // the shares of items in which by_sum and by_byte are the label
  int64_t items = 0, endings = 0;
  int64_t tokens = 0;  // of the endings
  double ms = 0;
};
ChoiceRecord RecordOf(const std::vector<ChoiceItem>& items, const std::vector<Choice>& choices);
std::string JsonLine(const ChoiceRecord& record);
std::string TextOf(const ChoiceRecord& record);
// Returns a JSON object, without a newline, that begins with kChoiceStart.
inline constexpr const char* kChoiceStart = "{\"line\":";
std::string JsonLine(const ChoiceItem& item, const Choice& choice);

}  // namespace weft
