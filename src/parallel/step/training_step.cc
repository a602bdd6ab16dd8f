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

uint64_t StepPlans::CommHash() const {
  uint64_t hash = weft::CommHash(step) ^ weft::CommHash(eval) * 17;
  return accumulate ? hash ^ weft::CommHash(*accumulate) * 31 : hash;
}

struct TrainingStep::Traced {
  TraceBuilder trace;
  BuilderScope builder;
  ModelScope model;
  explicit Traced(const StepOptions& o, RandomPhase phase = RandomPhase::kTrain)
      : trace({o.seed, phase}), builder(trace), model(o.model) {}
};

TrainingStep::TrainingStep(const TransformerConfig& model, const StepOptions& options)
    : options_(options), sharded_(model, options.model) {
  if (options_.micro_steps > 1) {
    FindAccumulators();
    BuildAccumulate();
  }
  BuildStep();
}

// They lie where the rules put the sums of one micro-step: a probe without accumulators shows it.
void TrainingStep::FindAccumulators() {
  Traced t(options_);
  Graph graph = t.trace.Finish(Micro(sharded_.model(), options_).All());
  PartitionOptions natural = options_.partition();
  natural.natural = true;
  LocalProgram local = Lower(graph, natural, "");
  for (size_t i = 0; i < graph.outputs.size(); i++) {
    const auto& [name, global] = graph.outputs[i];
    const Var& placed = local.graph.outputs[i].value;
    accumulators_.push_back({name, EntryKind::kAccumulator, global.dtype(), global.shape(),
                             placed.node().outputs[size_t(placed.index())].sharding});
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

void TrainingStep::BuildAccumulate() {
  Traced t(options_);
  MicroSums sums = Micro(sharded_.model(), options_);
  MicroSums total = Plus(AccumulatorLeaves(sums), sums);
  accumulate_ = Lower(t.trace.Finish({}, total.All()), options_.partition(), "accumulate");
}

void TrainingStep::BuildStep() {
  Traced t(options_);
  MicroSums sums = Micro(sharded_.model(), options_);
  std::vector<NamedValue> resets;
  if (accumulate_) {
    resets = sums.Map([](const NamedValue& sum) { return Full(0, sum.value.dtype(), sum.value.shape()); }).All();
    sums = Plus(AccumulatorLeaves(sums), sums);
  }
  UpdateResult update = Update(sharded_.model(), options_, sums);
  update.writes.insert(update.writes.end(), resets.begin(), resets.end());
  Graph graph = t.trace.Finish(std::move(update.outputs), std::move(update.writes));
  global_nodes_ = graph.nodes.size();
  for (const auto& node : graph.nodes) micro_flops_ += ProductFlops(*node);
  step_ = Lower(graph, options_.partition(), "step");
}

LocalProgram TrainingStep::Eval() {
  Traced t(options_, RandomPhase::kEval);
  return Lower(t.trace.Finish(EvalSums(sharded_.model(), options_)), options_.partition(), "eval");
}

StepPlans TrainingStep::Compile(const Runtime& runtime) {
  StepPlans plans{weft::Compile(step_, runtime, "step"), weft::Compile(Eval(), runtime, "eval"), {}};
  if (accumulate_) plans.accumulate = weft::Compile(*accumulate_, runtime, "accumulate");
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
  uint64_t hash = weft::CommHash(step_);
  return accumulate_ ? hash ^ weft::CommHash(*accumulate_) * 31 : hash;
}

}  // namespace weft
