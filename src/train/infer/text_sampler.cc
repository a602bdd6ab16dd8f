#include "weft/train/infer/text_sampler.h"

#include <fmt/format.h>

#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/infer/generate.h"

namespace weft {
namespace {

constexpr int64_t kTokens = 100;      // a few lines
constexpr double kTemperature = 0.8;  // as in the quickstart's sample

StepOptions OptionsFor(const Config& config, const Context& context, DeviceKind device) {
  StepOptions options = NextTokenOptions(config, device);
  options.kernels = &context.kernels(device);
  // The run's copies of weights have its compute type. Texts in another type are of the master weights, which fsdp:
  // gradients shards as fsdp: full does.
  if (options.model.precision.compute != config.precision.compute) {
    options.model.copies = false;
    if (options.model.fsdp == Fsdp::kGradients) options.model.fsdp = Fsdp::kFull;
  }
  return options;
}

class TextSampler final : public StepSampler {
 public:
  TextSampler(const Config& config, const Tokenizer& tokenizer, const Context& context, DeviceMesh& mesh,
              DeviceKind device)
      : config_(config),
        tokenizer_(tokenizer),
        options_(OptionsFor(config, context, device)),
        model_(ModelOf(config), options_.model),
        forward_(NextTokenPrograms(options_), model_.model(), ExecutorOf(config), options_,
                 RuntimeOf(context, mesh, device)) {
    forward_.CheckSameOnRanks(mesh.World());
  }

  MemoryNeed Need() const override { return forward_.Need(); }

  void Bind(State& state) override {
    AddEntries(state, forward_.Entries());
    forward_.Bind(state);
    state_ = &state;
  }

  absl::StatusOr<std::string> Text() override {
    GenerateOptions options{.tokens = kTokens};
    options.sampler = {.temperature = kTemperature, .seed = uint64_t(config_.train.seed)};
    absl::StatusOr<std::vector<int32_t>> prompt = PromptTokens(options, tokenizer_, config_.model.context);
    if (!prompt.ok()) return prompt.status();
    forward_.ClearCaches();  // the parameters have changed
    std::string text;
    absl::Status status =
        Generate({*state_, options_, forward_}, tokenizer_, *prompt, options, [&](std::string_view piece) {
          text += piece;
        }).status();
    if (!status.ok()) return status;
    return text;
  }

 private:
  const Config& config_;
  const Tokenizer& tokenizer_;
  StepOptions options_;
  ShardedModel model_;
  Forward forward_;
  State* state_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StepSampler>> MakeTextSampler(const Config& config, const Dataset& data,
                                                             const Context& context, DeviceMesh& mesh,
                                                             DeviceKind device) {
  if (config.train.sample_every == 0) return std::unique_ptr<StepSampler>();
  if (config.train.objective != TrainObjective::kNext)
    return RefuseKey(
        config, "train.sample_every",
        fmt::format("expected 0, as family {} does not continue texts, got {}; give 0, or another model.family",
                    config.model.family, config.train.sample_every));
  if (!data.tokenizer())
    return RefuseKey(config, "train.sample_every",
                     "needs the tokenizer of the text, which this data has not; name it in "
                     "data.tokenizer, or give 0");
  return std::make_unique<TextSampler>(config, *data.tokenizer(), context, mesh, device);
}

}  // namespace weft
