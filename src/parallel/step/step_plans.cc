#include "weft/parallel/step/step_plans.h"

#include "weft/core/compile/pipeline.h"

namespace weft {

const Plan& StepPlans::Largest() const {
  const Plan* most = step.arena_bytes >= eval.arena_bytes ? &step : &eval;
  return accumulate && accumulate->arena_bytes > most->arena_bytes ? *accumulate : *most;
}

StepPlans PlanStep(Transformer& model, const StepOptions& options, const StepPrograms& programs,
                   const Runtime& runtime) {
  StepPlans plans{Compile(programs.step, runtime, "step"), Compile(BuildEval(model, options), runtime, "eval"), {}};
  if (programs.accumulate) plans.accumulate = Compile(*programs.accumulate, runtime, "accumulate");
  return plans;
}

}  // namespace weft
