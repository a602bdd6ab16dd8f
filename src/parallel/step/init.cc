#include "weft/parallel/step/init.h"

#include <fmt/format.h>

#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/plan_check.h"
#include "weft/parallel/program/program.h"
#include "weft/parallel/step/sharded_model.h"
#include "weft/parallel/step/update.h"

namespace weft {
namespace {

StepOptions OptionsOf(const State& state, const Optimizer& optimizer, double clip) {
  return {.model = state.model(), .optimizer = optimizer, .clip = clip, .seed = state.seed()};
}

// The number of the next update is saved in checkpoints, because the bias corrections of the moments depend on it.
void AddCounters(State& state, const StepOptions& options) {
  Sharding replicated(state.mesh().num_axes());
  state.Add(entry::kUpdates, DType::kI64, {}, replicated, /*saved=*/true);
  state.Add(entry::kLr, ScalarType(options), {}, replicated, /*saved=*/false);
  state.SetScalar(entry::kUpdates, 1);
  state.SetScalar(entry::kLr, options.optimizer.lr);
}

// A group or a clip without an effect would train what should stay as it is, or too fast.
void CheckOptimizer(const Optimizer& optimizer, const Module& model, double clip, const std::string& at) {
  CheckNumbers(optimizer, at);
  WEFT_CHECK(clip >= 0, fmt::format("{}: expected clip >= 0, got {}; 0 is no clipping", at, clip));
  std::vector<std::string> paths = PathsOf(model.Parameters());
  for (const ParameterGroup& group : optimizer.groups) {
    std::string fault = Unmatched(group.match, "parameter", paths);
    WEFT_CHECK(fault.empty(), fmt::format("{}: the match of a group: {}", at, fault));
  }
}

void CheckPrecision(const Precision& p, const std::string& at) {
  for (auto [name, dtype] : {std::pair("compute", p.compute), {"params", p.params}, {"reduce", p.reduce}})
    WEFT_CHECK(IsFloating(dtype), fmt::format("{}: expected precision.{} of floats, got {}", at, name, Name(dtype)));
}

}  // namespace

State Init(const Module& model, const Optimizer& optimizer, DeviceMesh& mesh, const InitOptions& o, Loc loc) {
  WEFT_CHECK(o.precision.compute != DType::kF16,
             fmt::format("Init at {}: expected compute f64, f32 or bf16, got f16, whose gradients need a loss scale; "
                         "train with weft train, or with a TrainingStep",
                         ToString(loc)));
  std::string at = fmt::format("Init at {}", ToString(loc));
  CheckPrecision(o.precision, at);
  CheckOptimizer(optimizer, model, o.clip, at);
  CheckPlan(o.plan, model, at);
  State state(mesh,
              {.plan = o.plan,
               .precision = o.precision,
               .fsdp = o.fsdp,
               .regather = o.regather,
               .copies = o.copies,
               .seed = o.seed},
              loc);
  StepOptions options = OptionsOf(state, optimizer, o.clip);
  AddEntries(state, ParameterEntries(model, state.model()));
  AddEntries(state, UpdateEntries(model, options));
  AddCounters(state, options);
  InitParameters(model, state.model(), state, o.seed, state.runtime());
  state.set_optimizer(std::make_shared<OptimizerStep>(model, std::move(options)));
  return state;
}

std::pair<Var, Var> OptimizerStep::Step(const Loss& loss, std::span<const Var> gradients) const {
  UpdateResult update = Update(model_, options_, SumsOf(loss, gradients, model_, options_));
  for (const NamedValue& write : update.writes) WriteEntry(write.name, write.value);
  Var updates = Leaf(entry::kUpdates, DType::kI64, {});
  WriteEntry(entry::kUpdates, updates + Full(1, DType::kI64, {}));
  Var mean, norm;
  for (const NamedValue& out : update.outputs) {
    if (out.name == "loss") mean = out.value;
    if (out.name == "grad_norm") norm = out.value;
  }
  return {mean, norm};
}

void OptimizerStep::RefreshCopies(State& state) const {
  weft::RefreshCopies(model_, options_.model, state, state.runtime());
}

void OptimizerStep::SetLearningRate(State& state, double lr, Loc loc) {
  WEFT_CHECK(Within(kLrBounds, lr), fmt::format("SetLearningRate at {}: expected a number{}, got {}", ToString(loc),
                                                BoundsText(kLrBounds), lr));
  state.SetScalar(entry::kLr, lr);
}

}  // namespace weft
