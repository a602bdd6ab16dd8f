// A training run on in-process ranks, small enough to compare hundreds of layouts. rank_run.h has its steps one by one.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/compile/overlap/overlap_mode.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/process_group.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/program/executor_kind.h"
#include "weft/parallel/step/step_options.h"

namespace weft {
class Context;
class DeviceMesh;
}  // namespace weft

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
  bool copies = false;   // of weights, in the compute type
  bool combine = false;  // products that share an operand
  bool activation_grads = Numerics{}.activation_grads;
  int64_t logit_bytes = Numerics{}.logit_bytes;
};
MeshShape MeshOf(const Layout& l);
// Layouts that cover executors, axes, FSDP, sequence parallel and micro-batches.
std::vector<Layout> StreamLayouts();
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

Optimizer WithDefaults(std::string_view name);
std::string Describe(const Layout& l);
StepOptions OptionsOf(const Job& job, const Layout& l);

struct RunResult {
  std::vector<double> losses, norms, scales;  // `scales` only if the loss is scaled
  double eval_sum = 0, eval_count = 0;
  std::map<std::pair<int, std::string>, CallCount> counts;  // over all training steps, by axis and op
};

RunResult RunOnRank(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh);

// Runs fn on every rank of the layout's mesh.
void OnMesh(const Layout& layout, const std::function<void(Context&, DeviceMesh&)>& fn);

RunResult Train(const Job& job, const Layout& layout);

// How far the losses of a mesh are from those of one rank: the largest difference, as a part of one rank's.
double LossDistance(const RunResult& mesh, const RunResult& one);

// Sizes that no mesh here divides: a vocabulary of 37, 5 sequences, and a width of 30 with 5 heads, or 6 query heads
// over 2 KV heads.
inline constexpr const char* kFamilies[] = {"gpt2", "llama", "neox", "bert", "gemma2"};
TransformerConfig TinyGpt2();
TransformerConfig TinyLlama();
TransformerConfig TinyNeox();
TransformerConfig TinyBert();
TransformerConfig TinyGemma2();  // the first of the two layers has the window
TransformerConfig
TinyMarian();  // a source of 3 tokens and a target of 4; one block more in the decoder than the encoder
TransformerConfig Tiny(std::string_view family);

}  // namespace weft::testing_
