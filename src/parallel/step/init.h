// Init: creates a State with the parameters of a model and an optimizer that updates them.
//
//   Transformer model(config);
//   State state = Init(model, AdamW(3e-4), mesh,
//                      {.plan = MegatronPlan({.heads = 8, .kv_heads = 8}, mesh.shape()), .seed = 7});
//   auto step = Compile([&](Var tokens, Var targets) {
//     Loss loss = model.LossOf(tokens, targets);
//     return state.optimizer().Step(loss, Grad(loss, model.Parameters()));
//   }, state);
#pragma once
#include <span>
#include <utility>

#include "weft/parallel/nn/model.h"
#include "weft/parallel/optimizer/optimizer.h"
#include "weft/parallel/program/state.h"
#include "weft/parallel/step/step_options.h"

namespace weft {

struct InitOptions {
  ShardingPlan plan{};
  Precision precision{};
  Fsdp fsdp = Fsdp::kNone;
  bool regather = true;
  // Keeps parameters in the types in which they are used too. The update writes both, so that no step casts them.
  bool copies = false;
  double clip = 0;  // maximum of the global gradient norm; 0: no clipping
  uint64_t seed = 0;
};

// Returns a State whose parameters have their initial values, which do not depend on the mesh. Model and mesh must
// outlive the State. Throws Error for compute f16, which needs the loss scale of a TrainingStep, or for a number of the
// optimizer outside its bounds, and PlanError for a row of the plan that is not optional and matches nothing in the
// model. Also throws the errors of State.
State Init(const Module& model, const Optimizer& optimizer, DeviceMesh& mesh, const InitOptions& options = {},
           Loc loc = Loc::current());

// The update of a State's parameters. State::optimizer() returns it.
class OptimizerStep {
 public:
  OptimizerStep(const Module& model, StepOptions options) : model_(model), options_(std::move(options)) {}

  // Writes the next parameters and the next state of the optimizer. `gradients` are those of loss.sum, one per
  // parameter of the model in order, as Grad(loss, parameters) returns them. Returns the mean loss and the norm of its
  // gradient over all parameters before clipping. Both are replicated scalars. Must be called in a function that is
  // compiled or run over the State. Throws Error if the number of gradients is wrong.
  std::pair<Var, Var> Step(const Loss& loss, std::span<const Var> gradients) const;
  // Sets the copies of parameters. Call it after something else than the update, such as a checkpoint, set the
  // parameters of a State with copies, or with fsdp: gradients.
  void RefreshCopies(State& state) const;
  // Sets the learning rate of all later updates. Throws Error if it is negative or not finite.
  static void SetLearningRate(State& state, double lr, Loc loc = Loc::current());

 private:
  const Module& model_;
  StepOptions options_;
};

}  // namespace weft
