// TrainingStep: a model, the options of its step, and the programs made from them. Micro computes the sums of one
// micro-batch. Update turns the sums of the global batch into new parameters. Every executor runs these two functions,
// so no value passes between them except the sums.
//
// With k micro-steps there are two programs. `accumulate` runs k - 1 times and adds to the accumulators. `step` runs
// the last micro-step, the reductions and the update. With k = 1 there is only `step`.
#pragma once
#include <optional>
#include <vector>

#include "weft/core/compile/plan.h"
#include "weft/core/transforms/partition.h"
#include "weft/parallel/program/program.h"
#include "weft/parallel/step/micro_step.h"
#include "weft/parallel/step/sharded_model.h"

namespace weft {

// The programs of a run as plans. They never run at the same time, so they share one arena.
struct StepPlans {
  Plan step, eval;
  std::optional<Plan> accumulate;

  const Plan& Largest() const;                      // the plan that needs the largest arena
  uint64_t CommHash(const Runtime& runtime) const;  // hash of the order and the groups in which they issue collectives
};

class TrainingStep {
 public:
  // Traces, differentiates and partitions. Allocates no tensors.
  TrainingStep(const TransformerConfig& model, const StepOptions& options);
  TrainingStep(const TrainingStep&) = delete;  // its programs refer to it
  TrainingStep& operator=(const TrainingStep&) = delete;

  const StepOptions& options() const { return options_; }
  Model& model() { return sharded_.model(); }
  const Model& model() const { return sharded_.model(); }
  const ShardedModel& sharded() const { return sharded_; }

  const Program& step_program() const { return *step_; }
  const Program* accumulate_program() const { return accumulate_ ? &*accumulate_ : nullptr; }
  const LocalProgram& step() const { return step_->local(); }
  const LocalProgram* accumulate() const { return accumulate_ ? &accumulate_->local() : nullptr; }
  // Returns the program that evaluates one micro-batch, with outputs "sum" and "count". The first call traces it.
  const Program& Eval();
  // Fuses all programs and plans them for the device of `runtime`. Allocates no tensors.
  StepPlans Compile(const Runtime& runtime) { return Compile(runtime, options_.recompute); }
  StepPlans Compile(const Runtime& runtime, const RecomputeOptions& recompute);
  // Returns the options of a program of this step, such as "step" or "eval".
  ProgramOptions OptionsOf(const char* name, RandomPhase phase = RandomPhase::kTrain) const;

  // Returns every entry that the programs name.
  std::vector<EntryInfo> Entries() const;
  // Adds these entries to the State, as zeros, and sets the initial loss scale.
  void AddEntries(State& state) const;
  // Sets the parameters and their copies to their initial values.
  void InitParameters(State& state, const Runtime& runtime) const { sharded_.Init(state, options_.seed, runtime); }

  // Returns a hash of the collectives of a step. Ranks with the same hash issue the same collectives.
  uint64_t CommHash() const;
  size_t global_nodes() const { return step_->global_nodes(); }
  double micro_flops() const { return step_->product_flops(); }  // FLOPs of one micro-step, of all ranks together

 private:
  void FindAccumulators();
  // The bodies of the programs.
  void Accumulate();
  std::vector<NamedValue> LastMicroStep();
  MicroSums AccumulatorLeaves(const MicroSums& sums) const;

  StepOptions options_;
  ShardedModel sharded_;
  std::vector<EntryInfo> accumulators_;  // in the order of MicroSums; empty if there is one micro-step
  std::optional<Program> accumulate_, step_, eval_;
};

}  // namespace weft
