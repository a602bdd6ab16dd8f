#include "weft/parallel/step/runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "weft/core/compile/eager.h"
#include "weft/core/compile/interpreter.h"

namespace weft {
namespace {

constexpr const char* kStepOutputs[] = {"loss", "grad_norm", "count", "loss_scale", "skipped"};
std::span<const char* const> StepOutputs(const StepOptions& o) {
  return std::span(kStepOutputs).first(ScalesLoss(o) ? 5 : 3);
}
StepMetrics MetricsOf(const StepOptions& o, const std::function<double(size_t)>& output) {
  StepMetrics metrics{output(0), output(1), output(2)};
  if (!ScalesLoss(o)) return metrics;
  metrics.loss_scale = output(3);
  metrics.skipped = int64_t(output(4));
  return metrics;
}

// Scalars on their way from the device to the host.
class Results {
 public:
  explicit Results(DeviceRuntime& device) : host_(device.AllocateStaging(kMost * kSlot)), done_(device.NewEvent()) {}

  void Fetch(const Executable& e, std::span<const char* const> names, DeviceRuntime& device) {
    size_t i = 0;
    for (const char* name : names) {
      const Tensor& t = e.Output(name);
      wide_[i] = t.dtype() == DType::kF64;
      device.Copy(At(i++), t.data(), t.bytes());
    }
    done_->Record();
  }
  // Polls: a wait inside the driver would be one more synchronisation per step.
  void Wait() const {
    while (!done_->Done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  double Read(size_t i) const {
    return wide_[i] ? *static_cast<const double*>(At(i)) : double(*static_cast<const float*>(At(i)));
  }

 private:
  static constexpr size_t kMost = std::size(kStepOutputs), kSlot = sizeof(double);
  void* At(size_t i) const { return static_cast<char*>(host_->data()) + i * kSlot; }
  BufferPtr host_;
  std::unique_ptr<DeviceRuntime::Event> done_;
  std::array<bool, kMost> wide_{};
};

class CompiledRunner final : public StepRunner {
 public:
  CompiledRunner(State& state, StepPlans plans, const StepOptions& options, const Runtime& runtime)
      : device_(runtime.memory()), options_(options) {
    MemoryUse use("activations");
    arena_ = device_.Allocate(plans.Largest().arena_bytes);
    step_ = std::make_unique<Executable>(std::move(plans.step), runtime, state.binder(), arena_);
    eval_ = std::make_unique<Executable>(std::move(plans.eval), runtime, state.binder(), arena_);
    if (plans.accumulate)
      accumulate_ = std::make_unique<Executable>(*std::move(plans.accumulate), runtime, state.binder(), arena_);
  }

  void Issue(const std::function<void(int)>& fill) override {
    for (int j = 0; j + 1 < options_.micro_steps; j++) {
      fill(j);
      accumulate_->Run();
    }
    fill(options_.micro_steps - 1);
    step_->Run();
    results_[size_t(issued_++ % kInFlight)].Fetch(*step_, StepOutputs(options_), device_);
  }
  StepMetrics Wait() override {
    const Results& r = results_[size_t(waited_++ % kInFlight)];
    r.Wait();
    return MetricsOf(options_, [&](size_t i) { return r.Read(i); });
  }
  std::pair<double, double> Eval() override {
    eval_->Run();
    eval_results_.Fetch(*eval_, kEvalOutputs, device_);
    eval_results_.Wait();
    return {eval_results_.Read(0), eval_results_.Read(1)};
  }
  size_t arena_bytes() const override { return arena_->bytes(); }

 private:
  static constexpr const char* kEvalOutputs[] = {"sum", "count"};
  DeviceRuntime& device_;
  StepOptions options_;
  BufferPtr arena_;
  std::unique_ptr<Executable> step_, accumulate_, eval_;
  std::array<Results, kInFlight> results_{Results(device_), Results(device_)};
  Results eval_results_{device_};
  int64_t issued_ = 0, waited_ = 0;
};

// For executors that are done when they return.
class SynchronousRunner : public StepRunner {
 public:
  void Issue(const std::function<void(int)>& fill) final { metrics_[size_t(issued_++ % kInFlight)] = Run(fill); }
  StepMetrics Wait() final { return metrics_[size_t(waited_++ % kInFlight)]; }

 private:
  virtual StepMetrics Run(const std::function<void(int)>& fill) = 0;
  std::array<StepMetrics, kInFlight> metrics_;
  int64_t issued_ = 0, waited_ = 0;
};

class InterpretRunner final : public SynchronousRunner {
 public:
  InterpretRunner(State& state, Transformer& model, const StepOptions& options, const StepPrograms& programs,
                  const Runtime& runtime)
      : state_(state), options_(options), programs_(programs), eval_(BuildEval(model, options)), runtime_(runtime) {}

  StepMetrics Run(const std::function<void(int)>& fill) override {
    for (int j = 0; j < options_.micro_steps; j++) {
      fill(j);
      bool last = j + 1 == options_.micro_steps;
      auto out =
          Interpret(last ? programs_.step : *programs_.accumulate, runtime_, state_.binder(), Inspecting(TrapsStep()));
      if (last) return MetricsOf(options_, [&](size_t i) { return out.at(kStepOutputs[i]).Item(); });
    }
    return {};
  }
  std::pair<double, double> Eval() override {
    auto out = Interpret(eval_, runtime_, state_.binder(), Inspecting(true));
    return {out.at("sum").Item(), out.at("count").Item()};
  }

 private:
  // A NaN is the loss scale's business until that can fall no further.
  bool TrapsStep() const {
    return !ScalesLoss(options_) || state_.At(entry::kLossScale).local.Item() <= float(options_.loss_scale.min);
  }
  InterpretOptions Inspecting(bool trap_nan) const {
    return {.trap_nan = trap_nan, .poison = true, .print = options_.print_ops && runtime_.context->rank() == 0};
  }
  State& state_;
  StepOptions options_;
  const StepPrograms& programs_;
  LocalProgram eval_;
  Runtime runtime_;
};

class EagerRunner final : public SynchronousRunner {
 public:
  EagerRunner(State& state, Transformer& model, const StepOptions& options, const Runtime& runtime)
      : state_(state), model_(model), options_(options), runtime_(runtime) {}

  StepMetrics Run(const std::function<void(int)>& fill) override {
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
    return MetricsOf(options_, [&](size_t i) { return metrics[i]; });
  }
  std::pair<double, double> Eval() override {
    EagerBuilder eager(runtime_, state_.binder(), {options_.seed, RandomPhase::kEval});
    BuilderScope builder(eager);
    ModelScope scope(options_.model);
    Sharding replicated(options_.model.mesh.num_axes());
    std::vector<NamedValue> sums = EvalSums(model_, options_);
    return {eager.ToLocal(sums[0].value, replicated).Item(), eager.ToLocal(sums[1].value, replicated).Item()};
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
  return MakeCompiledRunner(state, PlanStep(model, options, programs, runtime), options, runtime);
}

std::unique_ptr<StepRunner> MakeCompiledRunner(State& state, StepPlans plans, const StepOptions& options,
                                               const Runtime& runtime) {
  return std::make_unique<CompiledRunner>(state, std::move(plans), options, runtime);
}

}  // namespace weft
