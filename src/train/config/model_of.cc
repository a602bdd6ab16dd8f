#include "weft/train/config/model_of.h"

#include <algorithm>

#include "weft/core/base/error.h"
#include "weft/core/host/rounding.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/optimizer_groups.h"
#include "weft/train/config/plan_value.h"

namespace weft {
namespace {

// One data parallel rank has whole weights, also with fsdp: full.
Fsdp FsdpOf(const Config& config, const MeshShape& mesh) {
  bool shards = mesh.sizes[size_t(mesh.Axis("dp"))] > 1 || config.parallel.fsdp != FsdpMode::kFull;
  return shards ? Fsdp(config.parallel.fsdp) : Fsdp::kNone;
}

// With fsdp: full a run may have more parameters than memory for copies of them.
bool CopiesWeights(const Config& config, Fsdp fsdp) {
  if (config.precision.copies == CopyMode::kAuto) return fsdp != Fsdp::kFull;
  return config.precision.copies == CopyMode::kAlways;
}

// Returns whether chunks are parts of a sequence, which copies of rows join; chunks of sequences need none.
bool CutsSequences(const Config& config) {
  if (config.parallel.overlap != OverlapMode::kChunks || config.mesh[kTensorAxis] == 1) return false;
  return config.train.micro_batch < std::max<int64_t>(config.parallel.chunks, 2);
}

// By measurements on GPUs. Where each rank has whole weights, the copies that join weights may cost what the products
// gain, and where sequences are cut, so may copies of rows.
bool CombinesProducts(const Config& config, DeviceKind device) {
  if (config.kernels.combine != CombineMode::kAuto) return config.kernels.combine == CombineMode::kTrue;
  bool narrower = SizeOf(config.precision.compute) < SizeOf(config.precision.params);
  bool gathers = FsdpOf(config, MeshOf(config)) == Fsdp::kFull, splits = config.mesh[kTensorAxis] > 1;
  return device == DeviceKind::kCuda && narrower && (gathers || splits) && !CutsSequences(config);
}

}  // namespace

MeshShape MeshOf(const Config& config) {
  MeshShape mesh;
  for (size_t i = 0; i < kNumMeshAxes; i++) {
    if (!kMeshAxes[i].in_every_mesh && config.mesh.sizes[i] == 1) continue;
    mesh.names.emplace_back(kMeshAxes[i].name());
    mesh.sizes.push_back(int(config.mesh.sizes[i]));
  }
  return mesh;
}

TransformerConfig ModelOf(const Config& config) {
  const ModelConfig& m = config.model;
  TransformerConfig c{.layers = m.layers,
                      .heads = m.heads,
                      .kv_heads = m.kv_heads,
                      .dim = m.dim,
                      .ffn = m.ffn,
                      .vocab = m.vocab,
                      .context = m.context};
  c.dropout = m.dropout;
  c.tie_embeddings = m.tie_embeddings;
  c.norm_eps = m.norm_eps;
  c.rope_theta = m.rope_theta;
  c.own = m.own;
  for (const auto& [name, value] : m.own_integers) c.own[name] = double(value);
  c.rope_scaling = {m.rope_factor, m.rope_low, m.rope_high, m.rope_context};
  return FindFamily(m.family)->configure(c);
}

StepOptions StepOptionsOf(const Config& config, const MeshShape& mesh) {
  StepOptions o;
  o.model.mesh = mesh;
  o.model.plan = PlanOf(config, mesh);
  o.model.precision = {config.precision.compute, config.precision.params, config.precision.reduce};
  if (config.precision.wire == WireMode::kBf16) o.model.precision.wire = DType::kBF16;
  o.model.fsdp = FsdpOf(config, mesh);
  o.model.copies = CopiesWeights(config, o.model.fsdp);
  o.model.regather = config.parallel.regather != RegatherMode::kNever;
  o.check = config.parallel.check == CheckMode::kExplicit;
  o.optimizer = OptimizerOf(config);
  o.clip = config.train.clip;
  o.loss.smoothing = config.train.label_smoothing;
  int64_t ranks = RanksWith(mesh, &MeshAxis::shards_batch), micro = config.train.micro_batch;
  int64_t share = CeilDiv(config.train.global_batch, ranks);
  o.micro_steps = int(CeilDiv(share, micro));
  o.rows = o.micro_steps == 1 ? config.train.global_batch : micro * ranks;
  o.halves = config.parallel.overlap == OverlapMode::kHalves && micro >= 2 && mesh.num_ranks() > 1 &&
             config.executor == ExecutorMode::kCompiled;
  o.gather = config.parallel.gather;
  o.symmetric_memory = config.parallel.symmetric_memory;
  o.tokens = config.model.context;
  o.global_batch = config.train.global_batch;
  o.recompute.mode = config.train.recompute.mode;
  o.seed = uint64_t(config.train.seed);
  o.print_ops = config.log.ops;
  const LossScaleConfig& scale = config.loss_scale;
  o.loss_scale = {scale.initial, scale.growth_factor, scale.backoff_factor, scale.growth_interval, scale.min};
  return o;
}

ExecutorKind ExecutorOf(const Config& config) {
  switch (config.executor) {
    case ExecutorMode::kCompiled:
      return ExecutorKind::kCompiled;
    case ExecutorMode::kInterpret:
      return ExecutorKind::kInterpret;
    case ExecutorMode::kEager:
      return ExecutorKind::kEager;
  }
  Fail("executor is none of the names");
}

// CPU ranks of one host share its cores and its memory bus: a thread that moves bytes would take what kernels need. On
// GPUs with tensor parallel ranks gradients of weights can fill the time of collectives that nothing else hides. A
// sequence by itself has no halves (NoteNoHalves).
OverlapMode OverlapOf(const Config& config, DeviceKind device, bool one_host) {
  OverlapMode given = config.parallel.overlap;
  if (given == OverlapMode::kHalves && config.train.micro_batch == 1) return OverlapMode::kFill;
  if (given != OverlapMode::kAuto) return given;
  if (device == DeviceKind::kCpu) return one_host ? OverlapMode::kNever : OverlapMode::kAlways;
  return config.mesh[kTensorAxis] > 1 ? OverlapMode::kFill : OverlapMode::kAlways;
}

Numerics NumericsOf(const Config& config, DeviceKind device) {
  const KernelsConfig& n = config.kernels;
  bool named = n.attention != AttentionBackend::kAuto;
  return {.deterministic = n.deterministic,
          .tf32 = n.tf32,
          .combine = CombinesProducts(config, device),
          .activation_grads = n.activation_grads == ActivationGrads::kFused,
          .logit_bytes = int64_t(std::max(n.logits * double(int64_t(1) << 30), 1.0)),
          .attention = named ? PrintValue(*FindField("kernels.attention"), config) : ""};
}

}  // namespace weft
