#include "weft/parallel/step/runner.h"

#include <array>
#include <chrono>
#include <thread>

#include "weft/core/base/error.h"
#include "weft/core/compile/eager.h"
#include "weft/core/compile/interpreter.h"
#include "weft/parallel/step/update.h"

namespace weft {
namespace {

// A scalar that the step gives back, and what it is to whoever runs it.
struct Metric {
  const char* name;
  void (*set)(StepMetrics& metrics, double value);
};
constexpr Metric kMetrics[] = {
    {"loss", [](StepMetrics& m, double value) { m.loss = value; }},
    {"grad_norm", [](StepMetrics& m, double value) { m.grad_norm = value; }},
    {"count", [](StepMetrics& m, double value) { m.count = value; }},
    {"loss_scale", [](StepMetrics& m, double value) { m.loss_scale = value; }},
    {"skipped", [](StepMetrics& m, double value) { m.skipped = int64_t(value); }},
};
void Set(StepMetrics& metrics, const std::string& name, double value) {
  for (const Metric& metric : kMetrics)
    if (name == metric.name) return metric.set(metrics, value);
  Fail("the step has an output " + name + ", which is none of its metrics");
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const NamedValue& out : graph.outputs) names.push_back(out.name);
  return names;
}

// Scalars on their way from the device to the host.
class Results {
 public:
  Results(DeviceRuntime& device, const std::vector<std::string>& names)
      : names_(names),
        host_(device.AllocateStaging(names.size() * kSlot)),
        done_(device.NewEvent()),
        wide_(names.size()) {}

  void Fetch(const Executable& e, DeviceRuntime& device) {
    for (size_t i = 0; i < names_.size(); i++) {
      const Tensor& t = e.Output(names_[i]);
      wide_[i] = t.dtype() == DType::kF64;
      device.Copy(At(i), t.data(), t.bytes());
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
  StepMetrics Metrics() const {
    StepMetrics metrics;
    for (size_t i = 0; i < names_.size(); i++) Set(metrics, names_[i], Read(i));
    return metrics;
  }

 private:
  static constexpr size_t kSlot = sizeof(double);
  void* At(size_t i) const { return static_cast<char*>(host_->data()) + i * kSlot; }
  std::vector<std::string> names_;
  BufferPtr host_;
  std::unique_ptr<DeviceRuntime::Event> done_;
  std::vector<bool> wide_;
};

class CompiledRunner final : public StepRunner {
 public:
  CompiledRunner(State& state, StepPlans plans, const TrainingStep& step, const Runtime& runtime)
      : device_(runtime.memory()),
        micro_steps_(step.options().micro_steps),
        results_{Results(device_, OutputNames(step.step().graph)), Results(device_, OutputNames(step.step().graph))} {
    MemoryUse use("activations");
    arena_ = device_.Allocate(plans.Largest().arena_bytes);
    step_ = std::make_unique<Executable>(std::move(plans.step), runtime, state.binder(), arena_);
    eval_ = std::make_unique<Executable>(std::move(plans.eval), runtime, state.binder(), arena_);
    if (plans.accumulate)
      accumulate_ = std::make_unique<Executable>(*std::move(plans.accumulate), runtime, state.binder(), arena_);
  }

  void Issue(const std::function<void(int)>& fill) override {
    if (profile_) profile_->BeginStep();
    for (int j = 0; j + 1 < micro_steps_; j++) {
      fill(j);
      Run(*accumulate_);
    }
    fill(micro_steps_ - 1);
    Run(*step_);
    results_[size_t(issued_++ % kInFlight)].Fetch(*step_, device_);
    if (profile_) profile_->EndStep();
  }
  StepMetrics Wait() override {
    const Results& r = results_[size_t(waited_++ % kInFlight)];
    r.Wait();
    return r.Metrics();
  }
  std::pair<double, double> Eval() override {
    eval_->Run();
    eval_results_.Fetch(*eval_, device_);
    eval_results_.Wait();
    return {eval_results_.Read(0), eval_results_.Read(1)};
  }
  size_t arena_bytes() const override { return arena_->bytes(); }

  void StartProfile(int64_t steps) override {
    std::vector<std::pair<const Executable*, int>> programs{{step_.get(), 1}};
    if (accumulate_) programs.emplace_back(accumulate_.get(), micro_steps_ - 1);
    profile_ = std::make_unique<RunProfile>(device_, programs, steps);
  }
  std::unique_ptr<RunProfile> TakeProfile() override { return std::move(profile_); }

 private:
  void Run(Executable& program) { profile_ ? profile_->Run(program) : program.Run(); }

  DeviceRuntime& device_;
  int micro_steps_;
  BufferPtr arena_;
  std::unique_ptr<Executable> step_, accumulate_, eval_;
  std::array<Results, kInFlight> results_;
  Results eval_results_{device_, {"sum", "count"}};
  int64_t issued_ = 0, waited_ = 0;
  std::unique_ptr<RunProfile> profile_;  // of the steps that are timed; null else
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
  InterpretRunner(State& state, TrainingStep& step, const Runtime& runtime)
      : state_(state), step_(step), eval_(step.Eval()), runtime_(runtime) {}

  StepMetrics Run(const std::function<void(int)>& fill) override {
    int last = step_.options().micro_steps - 1;
    for (int j = 0; j < last; j++) {
      fill(j);
      Interpret(*step_.accumulate(), runtime_, state_.binder(), Inspecting(TrapsStep()));
    }
    fill(last);
    StepMetrics metrics;
    for (const auto& [name, value] : Interpret(step_.step(), runtime_, state_.binder(), Inspecting(TrapsStep())))
      Set(metrics, name, value.Item());
    return metrics;
  }
  std::pair<double, double> Eval() override {
    auto out = Interpret(eval_, runtime_, state_.binder(), Inspecting(true));
    return {out.at("sum").Item(), out.at("count").Item()};
  }

 private:
  // A NaN is the loss scale's business until that can fall no further.
  bool TrapsStep() const {
    const StepOptions& o = step_.options();
    return !ScalesLoss(o) || state_.At(entry::kLossScale).local.Item() <= float(o.loss_scale.min);
  }
  InterpretOptions Inspecting(bool trap_nan) const {
    return {.trap_nan = trap_nan, .poison = true, .print = step_.options().print_ops && runtime_.context->rank() == 0};
  }
  State& state_;
  const TrainingStep& step_;
  LocalProgram eval_;
  Runtime runtime_;
};

class EagerRunner final : public SynchronousRunner {
 public:
  EagerRunner(State& state, TrainingStep& step, const Runtime& runtime)
      : state_(state), model_(step.model()), options_(step.options()), runtime_(runtime) {}

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
    StepMetrics metrics;
    for (const NamedValue& out : update.outputs)
      Set(metrics, out.name, eager.ToLocal(out.value, Sharding(options_.model.mesh.num_axes())).Item());
    return metrics;
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
    return sums.Map([&](const NamedValue& sum) {
      Sharding s = eager.ShardingOf(sum.value);
      return eager.FromLocal(eager.ToLocal(sum.value, s), sum.value.shape(), s);
    });
  }
  State& state_;
  Model& model_;
  const StepOptions& options_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<StepRunner> MakeRunner(ExecutorKind kind, State& state, TrainingStep& step, const Runtime& runtime,
                                       std::optional<StepPlans> plans) {
  if (kind == ExecutorKind::kEager) return std::make_unique<EagerRunner>(state, step, runtime);
  if (kind == ExecutorKind::kInterpret) return std::make_unique<InterpretRunner>(state, step, runtime);
  return std::make_unique<CompiledRunner>(state, plans ? *std::move(plans) : step.Compile(runtime), step, runtime);
}

}  // namespace weft
