#include "launcher/bench/compiled_case.h"

#include "weft/core/compile/eager.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/product_flops.h"
#include "weft/core/ops/ops.h"

namespace weft {

Tensor RandomTensor(const Runtime& runtime, DType dtype, const Shape& shape, const std::string& name) {
  Sharding replicated(runtime.mesh_shape.num_axes());
  EagerBuilder eager(runtime, /*bind=*/nullptr, {.random_phase = RandomPhase::kInit});
  BuilderScope builder(eager);
  ModuleScope path(name);
  eager.step = eager.first_row = eager.FromLocal(Tensor::Scalar(0, DType::kI64).To(runtime.memory()), {}, replicated);
  return eager.ToLocal(RandomNormal(dtype, shape), replicated);
}

LocalProgram TraceCase(const Runtime& runtime, absl::FunctionRef<std::vector<NamedValue>()> body) {
  TraceBuilder trace;
  BuilderScope builder(trace);
  Graph graph = trace.Finish(body());
  return Lower(graph, {.mesh = runtime.mesh_shape, .kernels = &runtime.kernels()}, /*name=*/"");
}

std::unique_ptr<Executable> CompileCase(const Runtime& runtime, const LocalProgram& program,
                                        const NamedTensors& leaves) {
  auto bind = [&leaves](const std::string& name, const ValueInfo&) { return leaves.at(name); };
  return std::make_unique<Executable>(Compile(program, runtime, /*name=*/""), runtime, bind);
}

double ProductFlops(const LocalProgram& program) {
  double flops = 0;
  for (const auto& node : program.graph.nodes)
    flops += ProductFlops(*node, [&](size_t i, size_t d) {
      const Var& in = node->inputs[i];
      return in.node().outputs[size_t(in.index())].global[d];
    });
  return flops;
}

}  // namespace weft
