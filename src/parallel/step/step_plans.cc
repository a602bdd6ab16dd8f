#include "weft/parallel/step/step_plans.h"

#include "weft/core/compile/fuse.h"

namespace weft {

const Plan& StepPlans::Largest() const {
  const Plan* most = step.arena_bytes >= eval.arena_bytes ? &step : &eval;
  return accumulate && accumulate->arena_bytes > most->arena_bytes ? *accumulate : *most;
}

StepPlans PlanStep(Transformer& model, const StepOptions& options, const StepPrograms& programs,
                   const Runtime& runtime) {
  auto plan = [&](const LocalProgram& program) { return MakePlan(Fuse(program, runtime.kernels()), runtime); };
  StepPlans plans{plan(programs.step), plan(BuildEval(model, options)), {}};
  if (programs.accumulate) plans.accumulate = plan(*programs.accumulate);
  return plans;
}

}  // namespace weft
