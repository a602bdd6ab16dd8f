#include "parallel/train/runner.h"

#include <algorithm>

#include "core/compile/eager.h"
#include "core/compile/interpreter.h"

namespace weft {
namespace {

class CompiledRunner final : public StepRunner {
 public:
  CompiledRunner(State& state, Transformer& model, const StepOptions& options, const StepPrograms& programs,
                 const Runtime& runtime)
      : micro_steps_(options.micro_steps) {
    // The programs never run at the same time: one arena serves them all.
    Plan step = MakePlan(programs.step, runtime), eval = MakePlan(BuildEval(model, options), runtime), accumulate;
    if (programs.accumulate) accumulate = MakePlan(*programs.accumulate, runtime);
    arena_ = AllocateCpu(std::max({step.arena_bytes, eval.arena_bytes, accumulate.arena_bytes}));
    step_ = std::make_unique<Executable>(std::move(step), runtime, state.binder(), arena_);
    eval_ = std::make_unique<Executable>(std::move(eval), runtime, state.binder(), arena_);
    if (programs.accumulate)
      accumulate_ = std::make_unique<Executable>(std::move(accumulate), runtime, state.binder(), arena_);
  }

  StepMetrics Step(const std::function<void(int)>& fill) override {
    for (int j = 0; j + 1 < micro_steps_; j++) {
      fill(j);
      accumulate_->Run();
    }
    fill(micro_steps_ - 1);
    step_->Run();
    return {Read(*step_, "loss"), Read(*step_, "grad_norm"), Read(*step_, "count")};
  }
  std::pair<double, double> Eval() override {
    eval_->Run();
    return {Read(*eval_, "sum"), Read(*eval_, "count")};
  }
  size_t arena_bytes() const override { return arena_->bytes(); }

 private:
  // Without an allocation, unlike Tensor::Item.
  static double Read(const Executable& e, const std::string& name) {
    const Tensor& t = e.Output(name);
    return t.dtype() == DType::kF64 ? *t.as<double>() : double(*t.as<float>());
  }
  int micro_steps_;
  BufferPtr arena_;
  std::unique_ptr<Executable> step_, accumulate_, eval_;
};

class InterpretRunner final : public StepRunner {
 public:
  InterpretRunner(State& state, Transformer& model, const StepOptions& options, const StepPrograms& programs,
                  const Runtime& runtime)
      : state_(state), options_(options), programs_(programs), eval_(BuildEval(model, options)), runtime_(runtime) {}

  StepMetrics Step(const std::function<void(int)>& fill) override {
    for (int j = 0; j < options_.micro_steps; j++) {
      fill(j);
      bool last = j + 1 == options_.micro_steps;
      auto out = Interpret(last ? programs_.step : *programs_.accumulate, runtime_, state_.binder(), Trapping());
      if (last) return {out.at("loss").Item(), out.at("grad_norm").Item(), out.at("count").Item()};
    }
    return {};
  }
  std::pair<double, double> Eval() override {
    auto out = Interpret(eval_, runtime_, state_.binder(), Trapping());
    return {out.at("sum").Item(), out.at("count").Item()};
  }

 private:
  InterpretOptions Trapping() const {
    return {.trap_nan = true, .poison = true, .print = options_.print_ops && runtime_.context->rank() == 0};
  }
  State& state_;
  StepOptions options_;
  const StepPrograms& programs_;
  LocalProgram eval_;
  Runtime runtime_;
};

class EagerRunner final : public StepRunner {
 public:
  EagerRunner(State& state, Transformer& model, const StepOptions& options, const Runtime& runtime)
      : state_(state), model_(model), options_(options), runtime_(runtime) {}

  StepMetrics Step(const std::function<void(int)>& fill) override {
    EagerBuilder eager(runtime_, state_.binder(), {options_.seed, RandomPhase::kTrain});
    BuilderScope builder(eager);
    ModelScope scope(options_.model);
    MicroSums total;
    for (int j = 0; j < options_.micro_steps; j++) {
      fill(j);
      MicroSums sums = Detached(eager, Micro(model_, options_));
      total = j == 0 ? sums : Plus(total, sums);
    }
    UpdateResult update = Update(model_, options_, total);
    for (const NamedValue& write : update.writes) eager.Write(write.name, write.value, state_.At(write.name).sharding);
    std::vector<double> metrics;
    for (const NamedValue& out : update.outputs)
      metrics.push_back(eager.ToLocal(out.value, Sharding(options_.model.mesh.num_axes())).Item());
    return {metrics[0], metrics[1], metrics[2]};
  }
  std::pair<double, double> Eval() override {
    EagerBuilder eager(runtime_, state_.binder(), {options_.seed, RandomPhase::kEval});
    BuilderScope builder(eager);
    ModelScope scope(options_.model);
    Sharding batch = BatchPlacement(options_.model.mesh), replicated(options_.model.mesh.num_axes());
    Var tokens = Leaf(entry::kTokens, DType::kI32, {options_.rows, options_.tokens}, batch);
    Var targets = Leaf(entry::kTargets, DType::kI32, {options_.rows, options_.tokens}, batch);
    Loss loss = model_.LossOf(tokens, targets, {.ignore_index = options_.loss.ignore_index});
    return {eager.ToLocal(loss.sum, replicated).Item(), eager.ToLocal(loss.count, replicated).Item()};
  }

 private:
  // The sums without the tape behind them: a micro-step's activations are freed before the next.
  MicroSums Detached(EagerBuilder& eager, const MicroSums& sums) {
    auto cut = [&](const Var& v) {
      Sharding s = eager.ShardingOf(v);
      return eager.FromLocal(eager.ToLocal(v, s), v.shape(), s);
    };
    MicroSums result{cut(sums.sum), cut(sums.count), {}};
    for (const Var& g : sums.gradients) result.gradients.push_back(cut(g));
    return result;
  }
  State& state_;
  Transformer& model_;
  StepOptions options_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<StepRunner> MakeRunner(ExecutorKind kind, State& state, Transformer& model, const StepOptions& options,
                                       const StepPrograms& programs, const Runtime& runtime) {
  if (kind == ExecutorKind::kEager) return std::make_unique<EagerRunner>(state, model, options, runtime);
  if (kind == ExecutorKind::kInterpret)
    return std::make_unique<InterpretRunner>(state, model, options, programs, runtime);
  return std::make_unique<CompiledRunner>(state, model, options, programs, runtime);
}

}  // namespace weft
