#include "weft/parallel/step/training_step.h"

#include <algorithm>

#include "weft/core/base/error.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/step/update.h"

namespace weft {

const Plan& StepPlans::Largest() const {
  const Plan* most = step.arena_bytes >= eval.arena_bytes ? &step : &eval;
  return accumulate && accumulate->arena_bytes > most->arena_bytes ? *accumulate : *most;
}

uint64_t StepPlans::CommHash(const Runtime& runtime) const {
  uint64_t hash = weft::CommHash(step, runtime) ^ weft::CommHash(eval, runtime) * 17;
  return accumulate ? hash ^ weft::CommHash(*accumulate, runtime) * 31 : hash;
}

ProgramOptions TrainingStep::OptionsOf(const char* name, RandomPhase phase) const {
  return {.name = name,
          .random = {options_.seed, phase},
          .model = options_.model,
          .partition = options_.partition(),
          .recompute = options_.recompute};
}

TrainingStep::TrainingStep(const TransformerConfig& model, const StepOptions& options)
    : options_(options), sharded_(model, options.model) {
  if (options_.micro_steps > 1) {
    FindAccumulators();
    auto accumulate = [this](std::span<const Var>) {
      Accumulate();
      return std::vector<NamedValue>{};
    };
    accumulate_.emplace(accumulate, OptionsOf("accumulate"));
  }
  step_.emplace([this](std::span<const Var>) { return LastMicroStep(); }, OptionsOf("step"));
}

// Accumulators have the placements that the rules give the sums of one micro-step. Tracing a probe without accumulators
// finds them.
void TrainingStep::FindAccumulators() {
  ProgramOptions natural = OptionsOf("");
  natural.partition.natural = true;
  Program probe([this](std::span<const Var>) { return Micro(sharded_.model(), options_).All(); }, natural);
  for (const auto& [name, placed] : probe.local().graph.outputs) {
    const ValueInfo& info = placed.node().outputs[size_t(placed.index())];
    accumulators_.push_back({name, EntryKind::kAccumulator, info.dtype, info.global, info.sharding});
  }
}

MicroSums TrainingStep::AccumulatorLeaves(const MicroSums& sums) const {
  auto accumulator = accumulators_.begin();
  return sums.Map([&](const NamedValue& sum) {
    const EntryInfo& e = *accumulator++;
    if (e.name != sum.name) Fail("the sums of a micro-step: expected " + e.name + ", got " + sum.name);
    return Leaf(e.name, e.dtype, e.shape, e.sharding);
  });
}

void TrainingStep::Accumulate() {
  MicroSums sums = Micro(sharded_.model(), options_);
  for (const NamedValue& sum : Plus(AccumulatorLeaves(sums), sums).All()) WriteEntry(sum.name, sum.value);
}

std::vector<NamedValue> TrainingStep::LastMicroStep() {
  MicroSums sums = Micro(sharded_.model(), options_);
  std::vector<NamedValue> resets;
  if (!accumulators_.empty()) {
    resets = sums.Map([](const NamedValue& sum) { return Full(0, sum.value.dtype(), sum.value.shape()); }).All();
    sums = Plus(AccumulatorLeaves(sums), sums);
  }
  UpdateResult update = Update(sharded_.model(), options_, sums);
  for (const NamedValue& write : update.writes) WriteEntry(write.name, write.value);
  for (const NamedValue& reset : resets) WriteEntry(reset.name, reset.value);
  return std::move(update.outputs);
}

const Program& TrainingStep::Eval() {
  if (!eval_)
    eval_.emplace([this](std::span<const Var>) { return EvalSums(sharded_.model(), options_); },
                  OptionsOf("eval", RandomPhase::kEval));
  return *eval_;
}

StepPlans TrainingStep::Compile(const Runtime& runtime, const RecomputeOptions& recompute) {
  StepPlans plans{
      weft::Compile(step(), runtime, "step", recompute), weft::Compile(Eval().local(), runtime, "eval"), {}};
  if (accumulate_) plans.accumulate = weft::Compile(accumulate_->local(), runtime, "accumulate", recompute);
  return plans;
}

std::vector<EntryInfo> TrainingStep::Entries() const {
  std::vector<EntryInfo> entries = sharded_.Entries();
  for (const std::vector<EntryInfo>& more :
       {UpdateEntries(sharded_.model(), options_), accumulators_, SlotEntries(options_)})
    entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

void TrainingStep::AddEntries(State& state) const {
  weft::AddEntries(state, Entries());
  if (ScalesLoss(options_)) state.SetScalar(entry::kLossScale, options_.loss_scale.initial);
}

uint64_t TrainingStep::CommHash() const {
  uint64_t hash = weft::CommHash(step());
  return accumulate_ ? hash ^ weft::CommHash(accumulate_->local()) * 31 : hash;
}

}  // namespace weft
