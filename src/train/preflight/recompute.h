// Decides how much a run with train.recompute: {budget: GiB} computes again.
#pragma once
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "weft/core/compile/runtime.h"
#include "weft/parallel/step/step_options.h"
#include "weft/train/config/config.h"

namespace weft {

// Whether the run has a budget that decides.
bool HasBudget(const Config& config);
// Returns the budget in bytes.
int64_t BudgetBytes(const Config& config);

// Returns the smallest share (RecomputeOptions) with which every rank needs at most the budget, of 256 shares, and 0 if
// the run has none. Throws ConfigError if even a share of 1 needs more. most(x) returns the largest x of all ranks, and
// all ranks must call this function.
double RecomputeShare(const Config& config, const StepOptions& options, const Runtime& runtime,
                      absl::FunctionRef<int64_t(int64_t)> most);

}  // namespace weft
