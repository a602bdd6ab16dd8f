// A training run on in-process ranks, small enough to compare hundreds of layouts.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/core/base/rng.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/staged/staged_group.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/step/runner.h"

namespace weft::testing_ {

struct Layout {
  int dp = 1, tp = 1;
  bool sequence_parallel = false;
  Fsdp fsdp = Fsdp::kNone;
  int64_t micro_batch = 0;  // sequences per dp rank and micro-step; 0: the whole batch at once
  ExecutorKind executor = ExecutorKind::kCompiled;
  DeviceKind device = DeviceKind::kCpu;
  int replicate = 1;
  bool regather = true;  // with fsdp full
  RecomputeOptions recompute = {};
  OverlapMode overlap = OverlapMode::kAuto;
  int chunks = 0;
  GatherMode gather = GatherMode::kKernels;
  bool symmetric_memory = false;
};
inline MeshShape MeshOf(const Layout& l) {
  if (l.replicate == 1) return {{"dp", "tp"}, {l.dp, l.tp}};
  return {{"replicate", "dp", "tp"}, {l.replicate, l.dp, l.tp}};
}
// Layouts that cover executors, axes, FSDP, sequence parallel and micro-batches.
inline std::vector<Layout> StreamLayouts() {
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
struct Job {
  TransformerConfig model;
  Precision precision;
  int64_t global_batch = 5;
  int steps = 50;
  double smoothing = 0;
  LossScaleOptions loss_scale = {};  // used if precision.compute is f16
  Optimizer optimizer = {};
  std::optional<ShardingPlan> plan = {};  // that of named_plan if empty
  const char* named_plan = "megatron";
};

inline Optimizer WithDefaults(std::string_view name) {
  const OptimizerRule* rule = FindOptimizer(name);
  return {rule, rule->defaults};
}

inline const char* Describe(OverlapMode overlap) {
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
inline std::string Describe(const Layout& l) {
  return fmt::format("{}dp{}_tp{}{}{}{}{}{}_{}", l.replicate > 1 ? fmt::format("replicate{}_", l.replicate) : "", l.dp,
                     l.tp, l.sequence_parallel ? "_sp" : "",
                     l.fsdp == Fsdp::kFull        ? l.regather ? "_full" : "_kept"
                     : l.fsdp == Fsdp::kGradients ? "_gradients"
                                                  : "",
                     l.micro_batch ? fmt::format("_mb{}", l.micro_batch) : "", Describe(l.overlap),
                     l.symmetric_memory ? "_symmetric" : "",
                     l.executor == ExecutorKind::kCompiled ? "compiled"
                     : l.executor == ExecutorKind::kEager  ? "eager"
                                                           : "interpret");
}

inline StepOptions OptionsOf(const Job& job, const Layout& l) {
  StepOptions o;
  o.model.mesh = MeshOf(l);
  PlanOptions plan{job.model.heads, job.model.kv_heads, l.sequence_parallel, job.model.tie_embeddings};
  o.model.plan = job.plan ? *job.plan : FindPlan(job.named_plan)->make(plan, o.model.mesh);
  o.model.precision = job.precision;
  o.model.fsdp = l.fsdp;
  o.model.regather = l.regather;
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

// Tokens are a function of (step, row, position). Every third row ignores some targets, so that counts are uneven.
inline void FillSlots(State& state, const StepOptions& o, int64_t global_batch, int64_t vocab, int step, int micro) {
  int64_t first = micro * o.rows;
  state.SetScalar(entry::kFirstRow, double(first));
  TensorView view = state.View(entry::kTokens);
  const Tensor &token_slot = state.At(entry::kTokens).local, &target_slot = state.At(entry::kTargets).local;
  bool on_cpu = token_slot.device().kind == DeviceKind::kCpu;
  Tensor host_tokens = on_cpu ? token_slot : Tensor::Zeros(DType::kI32, token_slot.shape());
  Tensor host_targets = on_cpu ? target_slot : Tensor::Zeros(DType::kI32, target_slot.shape());
  auto *tokens = host_tokens.as<int32_t>(), *targets = host_targets.as<int32_t>();
  for (int64_t r = 0; r < view.dim(0).extent; r++) {
    int64_t row = first + view.dim(0).offset + r;
    for (int64_t t = 0; t < o.tokens; t++) {
      auto draw = [&](int64_t at) {
        return int32_t(Philox(99, uint64_t(step), uint64_t(row * 1000 + at))[0] % uint64_t(vocab));
      };
      tokens[r * o.tokens + t] = row < global_batch ? draw(t) : 0;
      bool ignored = row >= global_batch || (row % 3 == 1 && t % 2 == 0);
      targets[r * o.tokens + t] = ignored ? -100 : (draw(t) * 3 + 1) % int32_t(vocab);
    }
  }
  if (on_cpu) return;
  state.device().Copy(token_slot.data(), tokens, host_tokens.bytes());
  state.device().Copy(target_slot.data(), targets, host_targets.bytes());
  state.device().Synchronize();
}

// One rank of a run, between its steps.
struct RankRun {
  const Job& job;
  TrainingStep training;
  const StepOptions& options;
  Runtime runtime;
  State state;
  std::unique_ptr<StepRunner> runner;
  std::function<void()> before_update{};  // called before the part that writes the state is issued

  RankRun(const Job& j, const Layout& layout, Context& context, DeviceMesh& mesh)
      : job(j),
        training(job.model, OptionsOf(job, layout)),
        options(training.options()),
        runtime(RuntimeOf(context, mesh, layout.device)),
        state(options.model.mesh, mesh.coords(), runtime.memory()) {
    training.AddEntries(state);
    training.InitParameters(state, runtime);
    runner = MakeRunner(layout.executor, state, training, runtime);
  }
  void Fill(int step, int micro) { FillSlots(state, options, job.global_batch, job.model.vocab, step, micro); }
  StepMetrics Step(int step) { return Step(step, step); }
  StepMetrics Step(int step, int update) {  // `step` selects data and random numbers, `update` the bias correction
    state.SetScalar(entry::kLr, 1e-3);
    state.SetScalar(entry::kStep, step);
    state.SetScalar(entry::kUpdates, update);
    return runner->Step([&](int j) {
      Fill(step, j);
      if (before_update && j + 1 == options.micro_steps) before_update();
    });
  }
};

struct RunResult {
  std::vector<double> losses, norms, scales;  // `scales` only if the loss is scaled
  double eval_sum = 0, eval_count = 0;
  std::map<std::pair<int, std::string>, CallCount> counts;  // over all training steps, by axis and op
};

inline RunResult RunOnRank(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh) {
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

inline auto CountTraining(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh) {
  return RunOnRank(job, layout, context, mesh).counts;
}

// Runs fn on every rank of the layout's mesh.
inline void OnMesh(const Layout& layout, const std::function<void(Context&, DeviceMesh&)>& fn) {
  RunRanks(MeshOf(layout).num_ranks(), [&](Context& context, GroupFactory& groups) {
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

inline RunResult Train(const Job& job, const Layout& layout) {
  RunResult result;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    RunResult mine = RunOnRank(job, layout, context, mesh);
    if (context.rank() == 0) result = mine;
  });
  return result;
}

// How far the losses of a mesh are from those of one rank: the largest difference, as a part of one rank's.
inline double LossDistance(const RunResult& mesh, const RunResult& one) {
  WEFT_CHECK(mesh.losses.size() == one.losses.size(), "runs of different lengths");
  double largest = 0;
  for (size_t i = 0; i < one.losses.size(); i++) {
    double distance = std::abs(mesh.losses[i] - one.losses[i]) / std::abs(one.losses[i]);
    if (!std::isfinite(distance)) return distance;
    largest = std::max(largest, distance);
  }
  return largest;
}

// Sizes that no mesh here divides: a vocabulary of 37, 5 sequences, and a width of 30 with 5 heads, or 6 query heads
// over 2 KV heads.
inline constexpr const char* kFamilies[] = {"gpt2", "llama", "neox", "bert", "gemma2"};
inline TransformerConfig TinyGpt2() {
  return FindFamily("gpt2")->configure(
      {.layers = 2, .heads = 5, .kv_heads = 5, .dim = 30, .ffn = 50, .vocab = 37, .context = 7, .dropout = 0.2});
}
inline TransformerConfig TinyLlama() {
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
inline TransformerConfig TinyNeox() {
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
inline TransformerConfig TinyBert() {
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
// The first of the two layers has the window.
inline TransformerConfig TinyGemma2() {
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
// A source of 3 tokens and a target of 4; the decoder has one block more than the encoder.
inline TransformerConfig TinyMarian() {
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
inline TransformerConfig Tiny(std::string_view family) {
  if (family == "gpt2") return TinyGpt2();
  if (family == "llama") return TinyLlama();
  if (family == "gemma2") return TinyGemma2();
  if (family == "marian") return TinyMarian();
  if (family == "neox") return TinyNeox();
  if (family == "bert") return TinyBert();
  Fail(fmt::format("the family {} has no tiny size; add a line to Tiny in tests/parallel/training.h", family));
}

}  // namespace weft::testing_
