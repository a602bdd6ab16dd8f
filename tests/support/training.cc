#include "support/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/rank_run.h"
#include "support/staged_group.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft::testing_ {

MeshShape MeshOf(const Layout& l) {
  if (l.replicate == 1) return {{"dp", "tp"}, {l.dp, l.tp}};
  return {{"replicate", "dp", "tp"}, {l.replicate, l.dp, l.tp}};
}

std::vector<Layout> StreamLayouts() {
  std::vector<Layout> layouts;
  for (ExecutorKind executor : {ExecutorKind::kCompiled, ExecutorKind::kInterpret, ExecutorKind::kEager})
    layouts.push_back({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .micro_batch = 2, .executor = executor});
  layouts.push_back({.dp = 1});
  layouts.push_back({.dp = 4, .fsdp = Fsdp::kGradients, .micro_batch = 1});
  layouts.push_back({.dp = 1, .tp = 3, .sequence_parallel = true});
  layouts.push_back({.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull});
  layouts.push_back({.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2});
  layouts.push_back({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .regather = false});
  return layouts;
}

Optimizer WithDefaults(std::string_view name) {
  const OptimizerRule* rule = FindOptimizer(name);
  return {rule, rule->defaults};
}

namespace {
const char* Describe(OverlapMode overlap) {
  switch (overlap) {
    case OverlapMode::kAuto:
      return "";
    case OverlapMode::kNever:
      return "_never";
    case OverlapMode::kAlways:
      return "_always";
    case OverlapMode::kFill:
      return "_fill";
    case OverlapMode::kHalves:
      return "_halves";
    case OverlapMode::kChunks:
      return "_chunks";
  }
  Fail("an overlap mode without a name");
}
}  // namespace

std::string Describe(const Layout& l) {
  return fmt::format("{}dp{}_tp{}{}{}{}{}{}{}{}_{}", l.replicate > 1 ? fmt::format("replicate{}_", l.replicate) : "",
                     l.dp, l.tp, l.sequence_parallel ? "_sp" : "",
                     l.fsdp == Fsdp::kFull        ? l.regather ? "_full" : "_kept"
                     : l.fsdp == Fsdp::kGradients ? "_gradients"
                                                  : "",
                     l.micro_batch ? fmt::format("_mb{}", l.micro_batch) : "", Describe(l.overlap),
                     l.gather == GatherMode::kCopy ? "_copied" : "", l.symmetric_memory ? "_symmetric" : "",
                     l.copies ? "_copies" : "",
                     l.executor == ExecutorKind::kCompiled ? "compiled"
                     : l.executor == ExecutorKind::kEager  ? "eager"
                                                           : "interpret");
}

StepOptions OptionsOf(const Job& job, const Layout& l) {
  StepOptions o;
  o.model.mesh = MeshOf(l);
  PlanOptions plan{job.model.heads, job.model.kv_heads, l.sequence_parallel, job.model.tie_embeddings};
  o.model.plan = job.plan ? *job.plan : FindPlan(job.named_plan)->make(plan, o.model.mesh);
  o.model.precision = job.precision;
  o.model.fsdp = l.fsdp;
  o.model.regather = l.regather;
  o.model.copies = l.copies;
  o.recompute = l.recompute;
  o.optimizer = job.optimizer;
  o.optimizer.options.weight_decay = 0.1;
  o.clip = 1.0;
  int64_t ranks = l.replicate * l.dp;  // ranks that share a batch
  int64_t share = (job.global_batch + ranks - 1) / ranks, micro = l.micro_batch ? l.micro_batch : share;
  o.micro_steps = int((share + micro - 1) / micro);
  o.rows = o.micro_steps == 1 ? job.global_batch : micro * ranks;
  o.gather = l.gather;
  o.symmetric_memory = l.symmetric_memory;
  o.halves = l.overlap == OverlapMode::kHalves;
  o.tokens = job.model.context;
  o.global_batch = job.global_batch;
  o.loss.smoothing = job.smoothing;
  o.loss_scale = job.loss_scale;
  o.seed = 1234;
  return o;
}

RunResult RunOnRank(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh) {
  RankRun run(job, layout, context, mesh);
  RunResult result;
  mesh.ResetCounts();  // initialisation is not part of a step
  for (int step = 1; step <= job.steps; step++) {
    StepMetrics m = run.Step(step);
    result.losses.push_back(m.loss);
    result.norms.push_back(m.grad_norm);
    if (m.loss_scale) result.scales.push_back(*m.loss_scale);
  }
  for (const DeviceMesh::AxisCount& c : mesh.Counts()) result.counts[{c.axis, Name(c.op)}] = c.count;
  for (int j = 0; j < run.options.micro_steps; j++) {
    run.Fill(0, j);
    auto [sum, count] = run.runner->Eval();
    result.eval_sum += sum;
    result.eval_count += count;
  }
  return result;
}

void OnMesh(const Layout& layout, const std::function<void(Context&, DeviceMesh&)>& fn) {
  RunRanks(MeshOf(layout).num_ranks(), [&](Context& context, GroupFactory& groups) {
    context.set_numerics(
        {.combine = layout.combine, .activation_grads = layout.activation_grads, .logit_bytes = layout.logit_bytes});
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    if (layout.device == DeviceKind::kCuda) {
      if (absl::Status s = OpenCuda(context, 0); !s.ok()) throw Error(std::string(s.message()));
      RegisterCollectives(context.kernels(layout.device), layout.device);
    }
    if (layout.device == DeviceKind::kCpu || MeshOf(layout).num_ranks() == 1) {
      DeviceMesh mesh(context, groups, MeshOf(layout));
      mesh.set_overlap(layout.overlap, layout.chunks);
      return fn(context, mesh);
    }
    // The ranks share one GPU.
    StagedGroupFactory staged(groups, *StreamsOf(context.device(layout.device)));
    DeviceMesh mesh(context, staged, MeshOf(layout), staged.kinds());
    mesh.set_overlap(layout.overlap, layout.chunks);
    fn(context, mesh);
  });
}

RunResult Train(const Job& job, const Layout& layout) {
  RunResult result;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    RunResult mine = RunOnRank(job, layout, context, mesh);
    if (context.rank() == 0) result = mine;
  });
  return result;
}

double LossDistance(const RunResult& mesh, const RunResult& one) {
  WEFT_CHECK(mesh.losses.size() == one.losses.size(), "runs of different lengths");
  double largest = 0;
  for (size_t i = 0; i < one.losses.size(); i++) {
    double distance = std::abs(mesh.losses[i] - one.losses[i]) / std::abs(one.losses[i]);
    if (!std::isfinite(distance)) return distance;
    largest = std::max(largest, distance);
  }
  return largest;
}

TransformerConfig TinyGpt2() {
  return FindFamily("gpt2")->configure(
      {.layers = 2, .heads = 5, .kv_heads = 5, .dim = 30, .ffn = 50, .vocab = 37, .context = 7, .dropout = 0.2});
}
TransformerConfig TinyLlama() {
  return FindFamily("llama")->configure({.layers = 2,
                                         .heads = 6,
                                         .kv_heads = 2,
                                         .dim = 24,
                                         .ffn = 35,
                                         .vocab = 37,
                                         .context = 9,
                                         .dropout = 0.1,
                                         .tie_embeddings = false});
}
TransformerConfig TinyNeox() {
  return FindFamily("neox")->configure({.layers = 2,
                                        .heads = 5,
                                        .kv_heads = 5,
                                        .dim = 30,
                                        .ffn = 50,
                                        .vocab = 37,
                                        .context = 7,
                                        .dropout = 0.2,
                                        .tie_embeddings = false,
                                        .own = {{"rotary_share", 0.7}}});  // 4 dims of 6
}
TransformerConfig TinyBert() {
  return FindFamily("bert")->configure({.layers = 2,
                                        .heads = 5,
                                        .kv_heads = 5,
                                        .dim = 30,
                                        .ffn = 50,
                                        .vocab = 37,
                                        .context = 7,
                                        .dropout = 0.2,
                                        .own = {{"transform", 1}}});
}
TransformerConfig TinyGemma2() {
  return FindFamily("gemma2")->configure(
      {.layers = 2,
       .heads = 6,
       .kv_heads = 2,
       .dim = 24,
       .ffn = 35,
       .vocab = 37,
       .context = 9,
       .dropout = 0.1,
       .own = {{"window", 3}, {"head_dim", 6}, {"query_scalar", 5}, {"attention_softcap", 2}, {"logit_softcap", 3}}});
}
TransformerConfig TinyMarian() {
  return FindFamily("marian")->configure({.layers = 2,
                                          .heads = 5,
                                          .kv_heads = 5,
                                          .dim = 30,
                                          .ffn = 50,
                                          .vocab = 37,
                                          .context = 7,
                                          .dropout = 0.2,
                                          .own = {{"decoder_layers", 3}}});
}
TransformerConfig Tiny(std::string_view family) {
  if (family == "gpt2") return TinyGpt2();
  if (family == "llama") return TinyLlama();
  if (family == "gemma2") return TinyGemma2();
  if (family == "marian") return TinyMarian();
  if (family == "neox") return TinyNeox();
  if (family == "bert") return TinyBert();
  Fail(fmt::format("the family {} has no tiny size; add a line to Tiny in tests/support/training.cc", family));
}

}  // namespace weft::testing_
