#include "weft/train/infer/forward.h"

#include "weft/core/base/memory.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/eager.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/compile/pipeline.h"

namespace weft {

Forward::Forward(RandomPhase phase, Trace trace, ExecutorKind executor, const StepOptions& options,
                 const Runtime& runtime)
    : phase_(phase), trace_(std::move(trace)), executor_(executor), options_(options), runtime_(runtime) {
  TraceBuilder tracer({options.seed, phase});
  BuilderScope builder(tracer);
  ModelScope scope(options.model);
  std::vector<NamedValue> outputs = trace_();
  for (const NamedValue& out : outputs) names_.push_back(out.name);
  const char* name = phase == RandomPhase::kEval ? "eval" : "generate";
  program_ = Lower(tracer.Finish(std::move(outputs)), options.partition(), name);
  if (executor == ExecutorKind::kCompiled) plan_ = Compile(program_, runtime, name);
}

uint64_t Forward::Hash() const { return CommHash(program_); }

void Forward::Bind(State& state) {
  state_ = &state;
  if (!plan_) return;
  MemoryUse use("activations");
  executable_ = std::make_unique<Executable>(*std::exchange(plan_, std::nullopt), runtime_, state.binder());
}

std::vector<Tensor> Forward::Run() {
  if (executor_ == ExecutorKind::kEager) return RunEagerly();
  std::vector<Tensor> results;
  if (executable_) {
    executable_->Run();
    for (const std::string& name : names_) results.push_back(executable_->Output(name).To(CpuRuntime()));
    return results;
  }
  bool print = options_.print_ops && runtime_.context->rank() == 0;
  auto values = Interpret(program_, runtime_, state_->binder(), {.trap_nan = true, .poison = true, .print = print});
  for (const std::string& name : names_) results.push_back(values.at(name).To(CpuRuntime()));
  return results;
}

std::vector<Tensor> Forward::RunEagerly() {
  EagerBuilder eager(runtime_, state_->binder(), {options_.seed, phase_});
  BuilderScope builder(eager);
  ModelScope scope(options_.model);
  std::vector<Tensor> results;
  for (const NamedValue& out : trace_())
    results.push_back(eager.ToLocal(out.value, Sharding(options_.model.mesh.num_axes())).To(CpuRuntime()));
  return results;
}

}  // namespace weft
