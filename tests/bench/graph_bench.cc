// How long it takes to make a training step: trace, Grad, Partition and Plan of a 48-layer GPT on dp2 x tp2 with
// sequence parallelism and FSDP. Prints one JSON line with the medians in milliseconds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "core/compile/plan.h"
#include "dist/collectives.h"
#include "dist/mesh.h"
#include "dist/plan_group.h"
#include "kernels/cpu/register.h"
#include "parallel/nn/family.h"
#include "parallel/train/program.h"

namespace weft {
namespace {

double Ms(const std::function<void()>& fn) {
  auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}
double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + long(v.size() / 2), v.end());
  return v[v.size() / 2];
}

void Bench(Fsdp fsdp, bool sequence_parallel) {
  TransformerConfig config = FindFamily("gpt2")->configure({.layers = 48,
                                                            .heads = 24,
                                                            .kv_heads = 24,
                                                            .dim = 1536,
                                                            .ffn = 6144,
                                                            .vocab = 50304,
                                                            .context = 1024,
                                                            .dropout = 0.1});
  StepOptions o;
  o.model.mesh = {{"dp", "tp"}, {2, 2}};
  o.model.plan = MegatronPlan({24, 24, sequence_parallel}, o.model.mesh);
  o.model.precision.compute = DType::kBF16;
  o.model.fsdp = fsdp;
  o.clip = 1;
  o.rows = 16;
  o.tokens = 1024;
  Context context(0, 4);
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  PlanGroupFactory groups;
  DeviceMesh mesh(context, groups, o.model.mesh);
  Runtime runtime{&context, &mesh, o.model.mesh, mesh.coords()};
  std::vector<double> build, plan, total;
  size_t global = 0, local = 0, steps = 0;
  for (int i = 0; i < 9; i++) {
    Transformer model(config);
    StepPrograms programs;
    Plan made;
    build.push_back(Ms([&] { programs = BuildStep(model, o); }));
    plan.push_back(Ms([&] { made = MakePlan(programs.step, runtime); }));
    total.push_back(build.back() + plan.back());
    global = programs.global_nodes;
    local = programs.step.graph.nodes.size();
    steps = made.steps.size();
  }
  fmt::print(
      "{{\"bench\":\"graph\",\"layers\":48,\"fsdp\":{},\"sp\":{},\"global_nodes\":{},\"local_nodes\":{},\"steps\":{},"
      "\"trace_grad_partition_ms\":{:.1f},"
      "\"plan_ms\":{:.1f},\"total_ms\":{:.1f},\"min_ms\":{:.1f}}}\n",
      int(fsdp), sequence_parallel, global, local, steps, Median(build), Median(plan), Median(total),
      *std::min_element(total.begin(), total.end()));
}

}  // namespace
}  // namespace weft

int main() {
  weft::Bench(weft::Fsdp::kNone, false);
  weft::Bench(weft::Fsdp::kFull, true);
}
