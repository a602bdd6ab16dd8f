// One rank of a training run, step by step.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "support/training.h"
#include "weft/parallel/step/runner.h"

namespace weft::testing_ {

// Tokens are a function of (step, row, position). Every third row ignores some targets, so that counts are uneven.
void FillSlots(State& state, const StepOptions& o, int64_t global_batch, int64_t vocab, int step, int micro);

// One rank of a run, between its steps.
struct RankRun {
  const Job& job;
  TrainingStep training;
  const StepOptions& options;
  Runtime runtime;
  State state;
  std::unique_ptr<StepRunner> runner;
  std::function<void()> before_update{};  // called before the part that writes the state is issued

  RankRun(const Job& j, const Layout& layout, Context& context, DeviceMesh& mesh);
  void Fill(int step, int micro) { FillSlots(state, options, job.global_batch, job.model.vocab, step, micro); }
  StepMetrics Step(int step) { return Step(step, step); }
  StepMetrics Step(int step, int update);  // `step` selects data and random numbers, `update` the bias correction
};

}  // namespace weft::testing_
