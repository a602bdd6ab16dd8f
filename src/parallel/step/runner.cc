#include "weft/parallel/step/runner.h"

#include <array>
#include <chrono>
#include <thread>

#include "weft/core/base/error.h"
#include "weft/parallel/step/arena_windows.h"

namespace weft {
namespace {

// A scalar output of the step, and the field of StepMetrics that receives it.
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
const Metric& MetricOf(const std::string& name) {
  for (const Metric& metric : kMetrics)
    if (name == metric.name) return metric;
  Fail("the step has an output " + name + ", which is none of its metrics");
}

// Copies the scalar results of one run from the device to the host.
class Scalars {
 public:
  explicit Scalars(DeviceRuntime& device)
      : device_(device), host_(device.AllocateStaging(kMost * kSlot)), done_(device.NewEvent()) {}

  void Fetch(std::span<const Function::Result> results) {
    WEFT_CHECK(results.size() <= kMost, "a step has more scalars than there is room for");
    for (size_t i = 0; i < results.size(); i++) {
      const Tensor& t = results[i].storage;
      wide_[i] = t.dtype() == DType::kF64;
      device_.Copy(At(i), t.data(), t.bytes());
    }
    done_->Record();
  }
  // Polls, because a wait inside the driver would be one more synchronization per step.
  void Wait() const {
    while (!done_->Done()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  double Read(size_t i) const {
    return wide_[i] ? *static_cast<const double*>(At(i)) : double(*static_cast<const float*>(At(i)));
  }

 private:
  static constexpr size_t kMost = std::size(kMetrics), kSlot = sizeof(double);
  void* At(size_t i) const { return static_cast<char*>(host_->data()) + i * kSlot; }

  DeviceRuntime& device_;
  BufferPtr host_;
  std::unique_ptr<DeviceRuntime::Event> done_;
  std::array<bool, kMost> wide_{};
};

// With a loss scale, a NaN only lowers the scale. It is an error once the scale has reached its minimum.
std::function<bool()> TrapsNan(State& state, const StepOptions& options) {
  if (!ScalesLoss(options)) return {};
  double min = options.loss_scale.min;
  return [&state, min] { return state.At(entry::kLossScale).local.Item() <= float(min); };
}

class Runner final : public StepRunner {
 public:
  Runner(ExecutorKind kind, State& state, TrainingStep& step, const Runtime& runtime, std::optional<StepPlans> plans)
      : device_(runtime.memory()), micro_steps_(step.options().micro_steps) {
    FunctionOptions shared{.executor = kind,
                           .traps_nan = TrapsNan(state, step.options()),
                           .prints = step.options().print_ops && runtime.context->rank() == 0};
    if (plans) shared.arena = AllocateArena(step, *plans, runtime);
    auto make = [&](const Program& program, Plan* plan) {
      FunctionOptions options = shared;
      if (plan) options.plan = std::move(*plan);
      return MakeFunction(program, state, runtime, std::move(options));
    };
    arena_bytes_ = shared.arena ? shared.arena->bytes() : 0;
    step_ = make(step.step_program(), plans ? &plans->step : nullptr);
    if (const Program* accumulate = step.accumulate_program())
      accumulate_ = make(*accumulate, plans ? &*plans->accumulate : nullptr);
    shared.traps_nan = {};
    eval_ = make(step.Eval(), plans ? &plans->eval : nullptr);
  }

  void Issue(const std::function<void(int)>& fill) override {
    if (profile_) profile_->BeginStep();
    for (int j = 0; j + 1 < micro_steps_; j++) {
      fill(j);
      Run(*accumulate_);
    }
    fill(micro_steps_ - 1);
    Run(*step_);
    scalars_[size_t(issued_++ % kInFlight)].Fetch(step_->results());
    if (profile_) profile_->EndStep();
  }
  StepMetrics Wait() override {
    const Scalars& scalars = scalars_[size_t(waited_++ % kInFlight)];
    scalars.Wait();
    StepMetrics metrics;
    for (size_t i = 0; i < step_->results().size(); i++)
      MetricOf(step_->results()[i].name).set(metrics, scalars.Read(i));
    return metrics;
  }
  std::pair<double, double> Eval() override {
    eval_->Run();
    eval_scalars_.Fetch(eval_->results());
    eval_scalars_.Wait();
    return {eval_scalars_.Read(0), eval_scalars_.Read(1)};
  }
  size_t arena_bytes() const override { return arena_bytes_; }

  void StartProfile(int64_t steps) override {
    if (!step_->executable()) return;
    std::vector<std::pair<const Executable*, int>> programs{{step_->executable(), 1}};
    if (accumulate_) programs.emplace_back(accumulate_->executable(), micro_steps_ - 1);
    profile_ = std::make_unique<RunProfile>(device_, programs, steps);
  }
  std::unique_ptr<RunProfile> TakeProfile() override { return std::move(profile_); }

 private:
  void Run(Function& function) { profile_ ? profile_->Run(*function.executable()) : function.Run(); }

  DeviceRuntime& device_;
  int micro_steps_;
  size_t arena_bytes_ = 0;
  std::unique_ptr<Function> step_, accumulate_, eval_;
  std::array<Scalars, kInFlight> scalars_{Scalars(device_), Scalars(device_)};
  Scalars eval_scalars_{device_};
  int64_t issued_ = 0, waited_ = 0;
  std::unique_ptr<RunProfile> profile_;  // of the steps that are timed; null if there are none
};

}  // namespace

std::unique_ptr<StepRunner> MakeRunner(ExecutorKind kind, State& state, TrainingStep& step, const Runtime& runtime,
                                       std::optional<StepPlans> plans) {
  if (kind == ExecutorKind::kCompiled && !plans) plans = step.Compile(runtime);
  return std::make_unique<Runner>(kind, state, step, runtime, std::move(plans));
}

}  // namespace weft
