#include "weft/parallel/step/program.h"

#include <fmt/format.h>

#include "weft/core/compile/eager.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft {
namespace entry {
std::string FirstMoment(const std::string& p) { return "adamw.m." + p; }
std::string SecondMoment(const std::string& p) { return "adamw.v." + p; }
std::string Accumulator(const std::string& p) { return "acc." + p; }
}  // namespace entry

namespace {

DType ScalarType(const StepOptions& o) { return AccumulateType(o.model.precision.params); }

// The gradient on its way into a sum or an update: in the reduction's dtype; with fsdp sharded as the parameter is
// stored.
Var Reducible(const Var& gradient, const Parameter& p, const StepOptions& o) {
  OriginScope origin(Phase::kBackward, &gradient.node());
  Var g = gradient;
  if (g.dtype() != o.model.precision.reduce)
    g = EmitOne(Op::kCast, {{"dtype", int(o.model.precision.reduce)}, {"parameter_gradient", 1}}, {g}, g.node().loc);
  return o.model.fsdp == Fsdp::kNone ? g : Reshard(g, ModelScope::Current().Stored(p));
}

Var StoredLeaf(const Parameter& p, const StepOptions& o) {
  ModelScope& scope = ModelScope::Current();
  if (o.model.fsdp != Fsdp::kGradients) return p.Source();
  Var& leaf = scope.leaves["stored " + p.path()];
  if (!leaf) leaf = ParameterLeaf(p.path(), o.model.precision.params, p.shape(), scope.Stored(p));
  return leaf;
}

// The same in every micro-step of a step, and on every mesh.
Var SeedOf(const StepOptions& o) { return LossSeed(o.global_batch * o.tokens); }

// One all-reduce an axis: each square sum becomes a term of a sum over all ranks, replicated gradients counted once.
Var GlobalNorm(const std::vector<Var>& gradients, const StepOptions& o) {
  Sharding terms(o.model.mesh.num_axes());
  for (int a = 0; a < terms.num_axes(); a++) terms.Set(a, Partial());
  std::vector<Var> squares;  // all of them first: a device may make them in one go
  for (const Var& g : gradients) squares.push_back(Cast(SumOfSquares(g), ScalarType(o)));  // []
  Var total;
  for (const Var& square : squares) {
    Var term = Reshard(square, terms);  // []
    total = total ? total + term : term;
  }
  return Sqrt(Reshard(total, Sharding(o.model.mesh.num_axes())));
}

struct Traced {
  TraceBuilder trace;
  BuilderScope builder;
  ModelScope model;
  explicit Traced(const StepOptions& o, RandomPhase phase = RandomPhase::kTrain)
      : trace({o.seed, phase}), builder(trace), model(o.model) {}
};

// The placements that the rules give to the sums of one micro-step: a probe without accumulators.
std::vector<std::pair<std::string, Sharding>> AccumulatorPlacements(Transformer& model, const StepOptions& o) {
  Traced t(o);
  MicroSums sums = Micro(model, o);
  std::vector<NamedValue> outputs{{entry::kLossSum, sums.sum}, {entry::kCount, sums.count}};
  auto parameters = model.Parameters();
  for (size_t i = 0; i < parameters.size(); i++)
    outputs.push_back({entry::Accumulator(parameters[i]->path()), sums.gradients[i]});
  LocalProgram local =
      Lower(t.trace.Finish(std::move(outputs)), {.mesh = o.model.mesh, .kernels = o.kernels, .natural = true}, "");
  std::vector<std::pair<std::string, Sharding>> placements;
  for (const NamedValue& out : local.graph.outputs)
    placements.emplace_back(out.name, out.value.node().outputs[size_t(out.value.index())].sharding);
  return placements;
}

// Leaves for the accumulated sums, shaped like one micro-step's.
MicroSums AccumulatorLeaves(const MicroSums& like, const std::vector<std::pair<std::string, Sharding>>& placements) {
  auto leaf = [&](size_t i, const Var& v) {
    return Leaf(placements[i].first, v.dtype(), v.shape(), placements[i].second);
  };
  MicroSums acc{leaf(0, like.sum), leaf(1, like.count), {}};
  for (size_t i = 0; i < like.gradients.size(); i++) acc.gradients.push_back(leaf(i + 2, like.gradients[i]));
  return acc;
}
std::vector<NamedValue> AccumulatorWrites(const MicroSums& sums,
                                          const std::vector<std::pair<std::string, Sharding>>& placements) {
  std::vector<NamedValue> writes{{placements[0].first, sums.sum}, {placements[1].first, sums.count}};
  for (size_t i = 0; i < sums.gradients.size(); i++) writes.push_back({placements[i + 2].first, sums.gradients[i]});
  return writes;
}
MicroSums ZerosLike(const MicroSums& sums) {
  auto zero = [](const Var& v) { return Full(0, v.dtype(), v.shape()); };
  MicroSums zeros{zero(sums.sum), zero(sums.count), {}};
  for (const Var& g : sums.gradients) zeros.gradients.push_back(zero(g));
  return zeros;
}

LocalProgram BuildAccumulate(Transformer& model, const StepOptions& o, const StepPrograms& programs) {
  Traced t(o);
  MicroSums sums = Micro(model, o);
  MicroSums total = Plus(AccumulatorLeaves(sums, programs.accumulators), sums);
  return Lower(t.trace.Finish({}, AccumulatorWrites(total, programs.accumulators)),
               {.mesh = o.model.mesh, .kernels = o.kernels}, "accumulate");
}

}  // namespace

MicroSums Micro(Transformer& model, const StepOptions& o) {
  Builder& builder = CurrentBuilder();
  builder.RestartRandom();
  builder.step = Leaf(entry::kStep, DType::kI64, {});
  builder.first_row = Leaf(entry::kFirstRow, DType::kI64, {});
  Sharding batch = BatchPlacement(o.model.mesh);
  Var tokens = Leaf(entry::kTokens, DType::kI32, {o.rows, o.tokens}, batch);    // [B, T]
  Var targets = Leaf(entry::kTargets, DType::kI32, {o.rows, o.tokens}, batch);  // [B, T]
  Loss loss = model.LossOf(tokens, targets, o.loss);
  auto parameters = model.Parameters();
  std::vector<Var> sources;
  for (const Parameter* p : parameters) sources.push_back(p->Source());
  MicroSums sums{loss.sum, loss.count,
                 Grad(loss.sum, sources, {ScalesLoss(o) ? SeedOf(o) : Var(), o.model.precision.reduce})};
  for (size_t i = 0; i < parameters.size(); i++) sums.gradients[i] = Reducible(sums.gradients[i], *parameters[i], o);
  return sums;
}

MicroSums Plus(const MicroSums& a, const MicroSums& b) {
  OriginScope origin(Phase::kBackward, nullptr);
  MicroSums sums{a.sum + b.sum, a.count + b.count, {}};
  for (size_t i = 0; i < a.gradients.size(); i++) sums.gradients.push_back(a.gradients[i] + b.gradients[i]);
  return sums;
}

UpdateResult Update(Transformer& model, const StepOptions& o, const MicroSums& sums) {
  OriginScope phase(Phase::kOptimizer, nullptr);
  ModuleScope scope("optimizer");
  auto parameters = model.Parameters();
  Sharding replicated(o.model.mesh.num_axes());
  Var sum, count;
  {
    ModuleScope loss("loss");
    sum = Cast(Reshard(sums.sum, replicated), ScalarType(o));
    count = Cast(Reshard(sums.count, replicated), ScalarType(o));
  }
  Var scale = Recip(Maximum(count, Full(1, ScalarType(o), {})));  // []
  std::vector<Var> gradients;
  for (size_t i = 0; i < parameters.size(); i++) {
    ModuleScope path(parameters[i]->path());
    gradients.push_back(ReshardLike(sums.gradients[i], StoredLeaf(*parameters[i], o)));
  }
  UpdateResult result;
  Var loss = sum * scale, norm;
  if (ScalesLoss(o)) scale = scale * Recip(Cast(SeedOf(o), ScalarType(o)));
  {
    ModuleScope clip("clip");
    norm = GlobalNorm(gradients, o) * scale;  // []
    if (o.clip > 0) scale = scale * Minimum(Full(1, norm.dtype(), {}), Scale(Recip(AddScalar(norm, 1e-6)), o.clip));
  }
  result.outputs = {{"loss", loss}, {"grad_norm", norm}, {"count", count}};
  Var lr = Leaf(entry::kLr, ScalarType(o), {}), updates = Leaf(entry::kUpdates, DType::kI64, {});
  if (ScalesLoss(o)) {
    ScaledUpdate decided = DecideUpdate(norm, updates, o.loss_scale);
    updates = decided.updates;
    result.outputs.insert(result.outputs.end(), decided.outputs.begin(), decided.outputs.end());
    result.writes = std::move(decided.writes);
  }
  for (size_t i = 0; i < parameters.size(); i++) {
    const Parameter& p = *parameters[i];
    ModuleScope path(p.path());
    Sharding stored = ModelScope::Current().Stored(p);
    DType dtype = o.model.precision.params;
    Var m = Leaf(entry::FirstMoment(p.path()), dtype, p.shape(), stored),
        v = Leaf(entry::SecondMoment(p.path()), dtype, p.shape(), stored);
    AdamWOptions options = o.adamw;
    if (!p.decay()) options.weight_decay = 0;
    auto [p1, m1, v1] = AdamW(StoredLeaf(p, o), m, v, gradients[i], lr, scale, updates, options);
    result.writes.insert(result.writes.end(),
                         {{p.path(), p1}, {entry::FirstMoment(p.path()), m1}, {entry::SecondMoment(p.path()), v1}});
    if (o.model.fsdp == Fsdp::kGradients)
      result.writes.push_back({CopyName(p.path()), Reshard(Cast(p1, p.used_dtype()), ModelScope::Current().Used(p))});
  }
  return result;
}

StepPrograms BuildStep(Transformer& model, const StepOptions& o) {
  StepPrograms programs;
  if (o.micro_steps > 1) {
    programs.accumulators = AccumulatorPlacements(model, o);
    programs.accumulate = BuildAccumulate(model, o, programs);
  }
  Traced t(o);
  MicroSums sums = Micro(model, o);
  std::vector<NamedValue> resets;
  if (o.micro_steps > 1) {
    resets = AccumulatorWrites(ZerosLike(sums), programs.accumulators);
    sums = Plus(AccumulatorLeaves(sums, programs.accumulators), sums);
  }
  UpdateResult update = Update(model, o, sums);
  update.writes.insert(update.writes.end(), resets.begin(), resets.end());
  Graph graph = t.trace.Finish(std::move(update.outputs), std::move(update.writes));
  programs.global_nodes = graph.nodes.size();
  for (const auto& node : graph.nodes) programs.micro_flops += ProductFlops(*node);
  programs.step = Lower(graph, {.mesh = o.model.mesh, .kernels = o.kernels}, "step");
  return programs;
}

std::vector<NamedValue> EvalSums(Transformer& model, const StepOptions& o) {
  Sharding batch = BatchPlacement(o.model.mesh);
  Var tokens = Leaf(entry::kTokens, DType::kI32, {o.rows, o.tokens}, batch);    // [B, T]
  Var targets = Leaf(entry::kTargets, DType::kI32, {o.rows, o.tokens}, batch);  // [B, T]
  CrossEntropyOptions plain{.ignore_index = o.loss.ignore_index};               // smoothing is for training
  Loss loss = model.LossOf(tokens, targets, plain);
  return {{"sum", loss.sum}, {"count", loss.count}};
}

LocalProgram BuildEval(Transformer& model, const StepOptions& o) {
  Traced t(o, RandomPhase::kEval);
  return Lower(t.trace.Finish(EvalSums(model, o)), {.mesh = o.model.mesh, .kernels = o.kernels}, "eval");
}

bool IsSaved(EntryKind kind) {
  return kind == EntryKind::kParameter || kind == EntryKind::kMoment || kind == EntryKind::kLossScale;
}

const char* Name(EntryKind kind) {
  constexpr const char* kNames[] = {"parameters", "moments", "slots", "copies", "accumulators", "slots"};
  return kNames[size_t(kind)];
}

std::vector<EntryInfo> EntriesOf(Transformer& model, const StepOptions& o, const StepPrograms& programs) {
  ModelScope scope(o.model);
  const Precision& precision = o.model.precision;
  std::vector<EntryInfo> entries;
  auto parameters = model.Parameters();
  for (const Parameter* p : parameters) {
    Sharding stored = scope.Stored(*p);
    entries.push_back({p->path(), EntryKind::kParameter, precision.params, p->shape(), stored});
    for (const std::string& moment : {entry::FirstMoment(p->path()), entry::SecondMoment(p->path())})
      entries.push_back({moment, EntryKind::kMoment, precision.params, p->shape(), stored});
    if (o.model.fsdp == Fsdp::kGradients)
      entries.push_back({CopyName(p->path()), EntryKind::kCopy, p->used_dtype(), p->shape(), scope.Used(*p)});
  }
  for (size_t i = 0; i < programs.accumulators.size(); i++) {
    const auto& [name, sharding] = programs.accumulators[i];
    DType dtype = i < 2 ? AccumulateType(precision.compute) : precision.reduce;  // the loss and its count come first
    entries.push_back({name, EntryKind::kAccumulator, dtype, i < 2 ? Shape{} : parameters[i - 2]->shape(), sharding});
  }
  if (ScalesLoss(o)) {
    Sharding replicated(o.model.mesh.num_axes());
    entries.push_back({entry::kLossScale, EntryKind::kLossScale, DType::kF32, {}, replicated});
    for (const char* counter : {entry::kGoodSteps, entry::kSkipped})
      entries.push_back({counter, EntryKind::kLossScale, DType::kI64, {}, replicated});
  }
  for (EntryInfo& slot : SlotEntries(o)) entries.push_back(std::move(slot));
  return entries;
}

std::vector<EntryInfo> SlotEntries(const StepOptions& o) {
  std::vector<EntryInfo> entries;
  Sharding batch = BatchPlacement(o.model.mesh), replicated(o.model.mesh.num_axes());
  for (const char* slot : {entry::kTokens, entry::kTargets})
    entries.push_back({slot, EntryKind::kSlot, DType::kI32, {o.rows, o.tokens}, batch});
  for (const char* slot : {entry::kStep, entry::kFirstRow, entry::kUpdates})
    entries.push_back({slot, EntryKind::kSlot, DType::kI64, {}, replicated});
  entries.push_back({entry::kLr, EntryKind::kSlot, ScalarType(o), {}, replicated});
  return entries;
}

void AddEntries(State& state, const std::vector<EntryInfo>& entries) {
  std::vector<State::NewEntry> slots;
  for (const EntryInfo& e : entries) {
    MemoryUse use(Name(e.kind));
    if (e.kind == EntryKind::kSlot)
      slots.push_back({e.name, e.dtype, e.shape, e.sharding});
    else
      state.Add(e.name, e.dtype, e.shape, e.sharding, IsSaved(e.kind));
  }
  MemoryUse use(Name(EntryKind::kSlot));
  state.AddTogether(slots);
}

void AddEntries(State& state, Transformer& model, const StepOptions& o, const StepPrograms& programs) {
  AddEntries(state, EntriesOf(model, o, programs));
  if (ScalesLoss(o)) state.SetScalar(entry::kLossScale, o.loss_scale.initial);
}

void InitParameters(State& state, Transformer& model, const StepOptions& o, const Runtime& runtime) {
  ModelScope scope(o.model);
  Sharding replicated(o.model.mesh.num_axes());
  for (const Parameter* p : model.Parameters()) {
    EagerBuilder eager(runtime, state.binder(), {o.seed, RandomPhase::kInit});
    BuilderScope builder(eager);
    ModuleScope path(p->path());
    eager.step = eager.first_row = eager.FromLocal(Tensor::Scalar(0, DType::kI64).To(runtime.memory()), {}, replicated);
    DType dtype = o.model.precision.params;
    Var value = p->init().kind == Init::kNormal ? Scale(RandomNormal(dtype, p->shape()), p->init().std)
                                                : Full(p->init().kind == Init::kOnes ? 1 : 0, dtype, p->shape());
    eager.Write(p->path(), value, scope.Stored(*p));
    if (o.model.fsdp == Fsdp::kGradients)
      eager.Write(CopyName(p->path()), Cast(value, p->used_dtype()), scope.Used(*p));
  }
}

void RefreshCopies(State& state, Transformer& model, const StepOptions& o, const Runtime& runtime) {
  if (o.model.fsdp != Fsdp::kGradients) return;
  ModelScope scope(o.model);
  for (const Parameter* p : model.Parameters()) {
    EagerBuilder eager(runtime, state.binder());
    BuilderScope builder(eager);
    Var value = eager.FromLocal(state.At(p->path()).local, p->shape(), scope.Stored(*p));
    eager.Write(CopyName(p->path()), Cast(value, p->used_dtype()), scope.Used(*p));
  }
}

}  // namespace weft
