#include "weft/train/infer/forward.h"

#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/pipeline.h"

namespace weft {

Forward::Forward(RandomPhase phase, Trace trace, ExecutorKind executor, const StepOptions& options,
                 const Runtime& runtime)
    : program_([trace = std::move(trace)](std::span<const Var>) { return trace(); },
               {.name = phase == RandomPhase::kEval ? "eval" : "generate",
                .random = {options.seed, phase},
                .model = options.model,
                .partition = options.partition()}),
      how_{.executor = executor, .prints = options.print_ops && runtime.context->rank() == 0},
      runtime_(runtime) {
  if (executor == ExecutorKind::kCompiled) how_.plan = Compile(program_.local(), runtime, program_.options().name);
}

uint64_t Forward::Hash() const { return CommHash(program_.local()); }

void Forward::Bind(State& state) {
  function_ = MakeFunction(program_, state, runtime_, std::move(how_));
  how_.plan.reset();
}

std::vector<Tensor> Forward::Run() {
  function_->Run();
  std::vector<Tensor> results;
  for (const Function::Result& result : function_->results()) results.push_back(result.storage.To(CpuRuntime()));
  return results;
}

}  // namespace weft
