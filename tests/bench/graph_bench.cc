// How long it takes to make a training step: trace, Grad, Partition and Plan of a 48-layer GPT on dp2 x tp2, without
// and with sequence parallelism and FSDP. Prints a JSON line for each of the two, with the medians and the minimum in
// milliseconds of CPU time. Fails if either minimum exceeds kMostMs.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "weft/core/compile/plan.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/plan_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

// The limit of the minimum, which is 45 to 110. It detects work that grows with the square of the number of layers.
constexpr double kMostMs = 300;

// Returns the CPU time of this process, which has one thread here. It equals the elapsed time on an idle machine, and
// other load hardly changes it.
double Ms(const std::function<void()>& fn) {
  std::clock_t start = std::clock();
  fn();
  return double(std::clock() - start) * 1e3 / CLOCKS_PER_SEC;
}
double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + long(v.size() / 2), v.end());
  return v[v.size() / 2];
}

bool Bench(Fsdp fsdp, bool sequence_parallel) {
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
  Runtime runtime = RuntimeOf(context, mesh);
  std::vector<double> build, plan, total;
  size_t global = 0, local = 0, steps = 0;
  for (int i = 0; i < 9; i++) {
    std::unique_ptr<TrainingStep> step;
    Plan made;
    build.push_back(Ms([&] { step = std::make_unique<TrainingStep>(config, o); }));
    plan.push_back(Ms([&] { made = MakePlan(step->step(), runtime); }));
    total.push_back(build.back() + plan.back());
    global = step->global_nodes();
    local = step->step().graph.nodes.size();
    steps = made.steps.size();
  }
  double least = *std::min_element(total.begin(), total.end());
  fmt::print(
      "{{\"bench\":\"graph\",\"layers\":48,\"fsdp\":{},\"sp\":{},\"global_nodes\":{},\"local_nodes\":{},\"steps\":{},"
      "\"trace_grad_partition_ms\":{:.1f},"
      "\"plan_ms\":{:.1f},\"total_ms\":{:.1f},\"min_ms\":{:.1f}}}\n",
      int(fsdp), sequence_parallel, global, local, steps, Median(build), Median(plan), Median(total), least);
  if (least <= kMostMs) return true;
  fmt::print(stderr, "graph_bench: making a step took at least {:.1f} ms, expected at most {}\n", least, kMostMs);
  return false;
}

}  // namespace
}  // namespace weft

int main() {
  bool plain = weft::Bench(weft::Fsdp::kNone, false), sharded = weft::Bench(weft::Fsdp::kFull, true);
  return plain && sharded ? 0 : 1;
}
