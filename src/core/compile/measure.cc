#include "weft/core/compile/measure.h"

#include <algorithm>

#include "weft/core/runtime/backend_times.h"

namespace weft {
namespace {

bool HasMeasure(const Node& node, const Runtime& runtime) {
  return runtime.kernels().Has(node.op) && runtime.kernels().Row(node.op).measure;
}

void Measure(const Node& node, const Runtime& runtime) {
  std::vector<TensorView> in, out;
  for (const Var& x : node.inputs) in.push_back(runtime.View(x.node().outputs[size_t(x.index())], nullptr));
  for (const ValueInfo& y : node.outputs) out.push_back(runtime.View(y, nullptr));
  runtime.kernels().Row(node.op).measure(CallOf(node, in, out, runtime));
}

}  // namespace

void MeasureBackends(const Graph& local, const Runtime& runtime) {
  const Context& context = *runtime.context;
  if (!context.Has(runtime.device) || context.numerics().deterministic) return;
  auto has_measure = [&](const auto& node) { return HasMeasure(*node, runtime); };
  if (std::none_of(local.nodes.begin(), local.nodes.end(), has_measure)) return;
  auto measure = [&] {
    for (const auto& node : local.nodes)
      if (has_measure(node)) Measure(*node, runtime);
    return context.backend_times().Text();
  };
  context.backend_times().Add(runtime.mesh ? runtime.mesh->FromFirstRank(measure) : measure());
}

}  // namespace weft
