#include "weft/train/infer/next_token.h"

#include <algorithm>

#include "weft/core/ops/ops.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"

namespace weft {
namespace {

constexpr const char *kWindow = "slot.window", *kLast = "slot.last";

std::vector<NamedValue> NextLogits(Model& model, const StepOptions& o) {
  Var tokens = Leaf(kWindow, DType::kI32, {1, o.tokens});        // [1, T]
  Var last = Leaf(kLast, DType::kI32, {1, 1});                   // [1, 1]
  Var logits = Cast(model.LogitsAt(tokens, last), DType::kF64);  // [1, 1, V]; f64 loses no bit
  return {{"logits", logits}};
}

}  // namespace

StepOptions NextTokenOptions(const Config& config, DeviceKind device) {
  StepOptions o = StepOptionsOf(config);
  o.rows = 1;
  o.tokens = config.model.context;
  DType& compute = o.model.precision.compute;
  bool narrow = compute == DType::kBF16 || compute == DType::kF16;
  if (narrow && device == DeviceKind::kCpu && !FromCommandLine(config, "precision.compute")) compute = DType::kF32;
  return o;
}

ForwardProgram NextTokenProgram(const StepOptions& o) {
  Sharding replicated(o.model.mesh.num_axes());
  return {RandomPhase::kGenerate,
          NextLogits,
          {{kWindow, EntryKind::kSlot, DType::kI32, {1, o.tokens}, replicated},
           {kLast, EntryKind::kSlot, DType::kI32, {1, 1}, replicated}}};
}

std::span<const double> NextToken::Logits(std::span<const int32_t> tokens) {
  auto context = size_t(model_.options.tokens);
  std::span<const int32_t> seen = tokens.last(std::min(tokens.size(), context));
  window_.assign(context, 0);
  std::copy(seen.begin(), seen.end(), window_.begin());
  auto last = int32_t(seen.size()) - 1;
  Write(kWindow, window_);
  Write(kLast, {&last, 1});
  logits_ = model_.forward.Run()[0];
  return {logits_.as<double>(), size_t(logits_.num_elements())};
}

void NextToken::Write(const char* slot, std::span<const int32_t> values) {
  State& state = model_.state;
  state.device().Copy(state.At(slot).local.data(), values.data(), values.size_bytes());
  state.device().Synchronize();  // before the host's memory changes
}

}  // namespace weft
