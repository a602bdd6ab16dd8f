// TrainingStep: a model, the options of its step, and the programs that they make. Micro gives the sums of one
// micro-batch, Update turns the sums of the global batch into new parameters; every executor runs these two functions,
// so a value cannot cross the cut between them unnoticed.
//
// With k micro-steps there are two programs: `accumulate` (k - 1 times) adds to the accumulators, `step` does the last
// micro-step, the reductions and the update. k = 1 is `step` alone.
#pragma once
#include <optional>
#include <vector>

#include "weft/core/compile/plan.h"
#include "weft/core/transforms/partition.h"
#include "weft/parallel/step/micro_step.h"
#include "weft/parallel/step/sharded_model.h"

namespace weft {

// The programs of a run as plans. They never run at the same time, so one arena serves them all.
struct StepPlans {
  Plan step, eval;
  std::optional<Plan> accumulate;

  const Plan& Largest() const;  // the one that the arena is made for
  uint64_t CommHash() const;    // of the order in which they issue collectives
};

class TrainingStep {
 public:
  // Traces, differentiates and partitions; allocates nothing.
  TrainingStep(const TransformerConfig& model, const StepOptions& options);

  const StepOptions& options() const { return options_; }
  Model& model() { return sharded_.model(); }
  const Model& model() const { return sharded_.model(); }
  const ShardedModel& sharded() const { return sharded_; }

  const LocalProgram& step() const { return step_; }
  const std::optional<LocalProgram>& accumulate() const { return accumulate_; }
  // One micro-batch of evaluation: outputs "sum" and "count".
  LocalProgram Eval();
  // All programs, fused and planned for the device of `runtime`; nothing is allocated.
  StepPlans Compile(const Runtime& runtime);

  // Every entry that the programs name.
  std::vector<EntryInfo> Entries() const;
  // Adds them all to the state, as zeros, and sets the loss scale.
  void AddEntries(State& state) const;
  // Sets the parameters to their initial values; copies follow.
  void InitParameters(State& state, const Runtime& runtime) const { sharded_.Init(state, options_.seed, runtime); }

  uint64_t CommHash() const;  // of the collectives of a step: ranks with the same one issue the same
  size_t global_nodes() const { return global_nodes_; }
  double micro_flops() const { return micro_flops_; }  // of the products of one micro-step, all ranks together

 private:
  // What tracing them all has in common.
  struct Traced;
  void FindAccumulators();
  void BuildAccumulate();
  void BuildStep();
  MicroSums AccumulatorLeaves(const MicroSums& sums) const;

  StepOptions options_;
  ShardedModel sharded_;
  std::vector<EntryInfo> accumulators_;  // in the order of MicroSums; none where there is one micro-step
  std::optional<LocalProgram> accumulate_;
  LocalProgram step_;
  size_t global_nodes_ = 0;
  double micro_flops_ = 0;
};

}  // namespace weft
