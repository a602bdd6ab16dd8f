// StepPlans: the programs of a run as plans. They never run at the same time, so one arena serves them all.
#pragma once
#include <optional>

#include "weft/core/compile/plan.h"
#include "weft/parallel/step/program.h"

namespace weft {

struct StepPlans {
  Plan step, eval;
  std::optional<Plan> accumulate;

  const Plan& Largest() const;  // the one that the arena is made for
};
// Fused and planned for the device of `runtime`; nothing is allocated.
StepPlans PlanStep(Transformer& model, const StepOptions& options, const StepPrograms& programs,
                   const Runtime& runtime);

}  // namespace weft
