#include "weft/train/config/unused_keys.h"

#include "fmt/format.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/optimizer_groups.h"
#include "weft/train/config/pattern_check.h"

namespace weft {
namespace {

bool IsRotary(const Config& c) {
  const ModelFamily* family = FindFamily(c.model.family);
  return !family || family->configure({}).rope_theta != 0;
}
bool ScalesRope(const Config& c) { return c.model.rope_factor != 1; }
bool Evaluates(const Config& c) { return !c.data.synthetic && !c.data.val.empty(); }
bool ResumesFromFolder(const Config& c) { return c.checkpoint.resume != "never" && c.checkpoint.resume != "auto"; }

// A group's optimizer may use momentum even if optimizer.momentum is 0.
bool HasNoNesterov(const Config& c) {
  return !AnyOptimizerReads(c, "nesterov") || (c.optimizer.momentum == 0 && c.optimizer.groups.empty());
}

// Unknown while an axis is still to be filled; returns false then.
bool IsOneRank(const Config& c) { return c.mesh.num_fills() == 0 && c.mesh.ranks() == 1; }

bool IsOnCpu(const Config& c) { return c.device == DeviceChoice::kCpu; }

// With gradients, weights in the compute type are also kept between steps, which one rank can do.
bool ShardsNothing(const Config& c) {
  bool keeps = c.parallel.fsdp == FsdpMode::kGradients && c.precision.compute != c.precision.params;
  return c.mesh.num_fills() == 0 && c.mesh["dp"] == 1 && !keeps;
}

struct Rule {
  const char* keys;  // one key, or the prefix of a section: "loss_scale."
  bool (*unused)(const Config&);
  const char* why;
  bool refused = false;
};
constexpr Rule kRules[] = {
    {"schedule.min_lr", [](const Config& c) { return c.schedule.name == "constant"; },
     "schedule.name is constant; give another schedule"},
    {"optimizer.betas", [](const Config& c) { return !AnyOptimizerReads(c, "betas"); },
     "optimizer.name reads none; give adamw, lion or muon"},
    {"optimizer.eps", [](const Config& c) { return !AnyOptimizerReads(c, "eps"); },
     "optimizer.name reads none; give adamw or muon"},
    {"optimizer.momentum", [](const Config& c) { return !AnyOptimizerReads(c, "momentum"); },
     "optimizer.name reads none; give sgd or muon"},
    {"optimizer.nesterov", HasNoNesterov,
     "optimizer.name reads none, or there is no momentum; give sgd or muon, and a momentum"},
    {"precision.wire", IsOneRank, "the mesh has one rank, which sends no gradients; give more ranks"},
    {"precision.copies", [](const Config& c) { return c.precision.compute == c.precision.params; },
     "precision.compute is precision.params, so weights are not cast; give another precision.compute"},
    {"parallel.fsdp", ShardsNothing, "mesh.dp is 1, and fsdp shards over dp; give mesh.dp"},
    {"parallel.sequence_parallel", [](const Config& c) { return c.mesh["tp"] == 1; },
     "mesh.tp is 1, so ranks share no sequence; give mesh.tp"},
    {"parallel.regather", [](const Config& c) { return c.parallel.fsdp != FsdpMode::kFull; },
     "parallel.fsdp is not full, so weights are not gathered; give full"},
    {"parallel.overlap", IsOneRank, "the mesh has one rank, which has no collectives; give more ranks"},
    {"parallel.overlap", [](const Config& c) { return c.executor != ExecutorMode::kCompiled; },
     "only executor compiled overlaps; give compiled"},
    {"parallel.chunks", [](const Config& c) { return c.parallel.overlap != OverlapMode::kChunks; },
     "parallel.overlap is not chunks; give chunks"},
    {"parallel.gather", IsOneRank, "the mesh has one rank, which gathers nothing; give more ranks", true},
    {"parallel.gather", IsOnCpu, "device is cpu; give cuda", true},
    {"parallel.gather", [](const Config& c) { return c.executor != ExecutorMode::kCompiled; },
     "only executor compiled has copied gathers; give compiled", true},
    {"parallel.symmetric_memory", IsOneRank, "the mesh has one rank, which has no collectives; give more ranks", true},
    {"parallel.symmetric_memory", IsOnCpu, "device is cpu; give cuda", true},
    {"parallel.symmetric_memory", [](const Config& c) { return c.executor != ExecutorMode::kCompiled; },
     "only executor compiled has such memory; give compiled", true},
    {"kernels.combine",
     [](const Config& c) { return c.kernels.combine == CombineMode::kTrue && c.executor != ExecutorMode::kCompiled; },
     "only executor compiled combines products; give compiled"},
    {"loss_scale.", [](const Config& c) { return c.precision.compute != DType::kF16; },
     "precision.compute is not f16; give f16, the only type with a loss scale"},
    {"model.rope_theta", [](const Config& c) { return !IsRotary(c); },
     "model.family has no rotary embedding; give another family"},
    {"model.rope_factor", [](const Config& c) { return !IsRotary(c); },
     "model.family has no rotary embedding; give another family"},
    {"model.rope_low", [](const Config& c) { return !ScalesRope(c); }, "model.rope_factor is 1; give the factor"},
    {"model.rope_high", [](const Config& c) { return !ScalesRope(c); }, "model.rope_factor is 1; give the factor"},
    {"model.rope_context", [](const Config& c) { return !ScalesRope(c); }, "model.rope_factor is 1; give the factor"},
    {"model.init", ResumesFromFolder, "checkpoint.resume names the weights to continue from; give never"},
    {"model.init_neutral", [](const Config& c) { return c.model.init.empty(); },
     "model.init is not set; give published weights"},
    {"data.train", [](const Config& c) { return c.data.synthetic; }, "data.synthetic is true; give false"},
    {"data.val", [](const Config& c) { return c.data.synthetic; }, "data.synthetic is true; give false"},
    {"data.field", [](const Config& c) { return c.data.synthetic; }, "data.synthetic is true; give false"},
    {"data.shuffle", [](const Config& c) { return c.data.synthetic; }, "data.synthetic is true; give false"},
    {"train.eval_every", [](const Config& c) { return !Evaluates(c); }, "there is no validation data; give data.val"},
    {"train.eval_batches", [](const Config& c) { return !Evaluates(c); }, "there is no validation data; give data.val"},
    {"train.recompute", [](const Config& c) { return c.executor != ExecutorMode::kCompiled; },
     "executor is not compiled, and the others keep all values; give compiled"},
    {"checkpoint.keep", [](const Config& c) { return c.checkpoint.dir.empty(); },
     "nothing is saved; give checkpoint.dir"},
    {"profile.path", [](const Config& c) { return c.profile.steps.empty(); },
     "nothing is profiled; give profile.steps"},
    {"kernels.deterministic", IsOnCpu, "device is cpu; give cuda"},
    {"kernels.tf32", IsOnCpu, "device is cpu; give cuda"},
    {"kernels.activation_grads", IsOnCpu, "device is cpu; give cuda"},
    {"kernels.activation_grads", [](const Config& c) { return c.executor != ExecutorMode::kCompiled; },
     "only executor compiled fuses; give compiled"},
    {"kernels.logits", IsOnCpu, "device is cpu; give cuda"},
    {"kernels.logits", [](const Config& c) { return c.executor != ExecutorMode::kCompiled; },
     "only executor compiled fuses; give compiled"},
    {"kernels.attention", IsOnCpu, "device is cpu; give cuda"},
    {"device.memory", IsOnCpu, "device is cpu; give cuda"},
};

bool Holds(const Rule& rule, const std::string& key) {
  std::string keys = rule.keys;
  return keys.ends_with('.') ? key.starts_with(keys) : key == keys;
}

// Returns the families that read the key, which its help begins with.
std::string FamiliesOf(const Field& field) {
  std::string help = field.help;
  return help.substr(0, help.find(':'));
}

// Returns the lines of the rules, or only of those whose keys a run refuses.
std::vector<std::string> LinesOf(const Config& config, const Field& field, bool only_refused) {
  static const Config defaults;
  std::vector<std::string> lines;
  for (const Rule& rule : kRules) {
    bool unused = Holds(rule, field.key) && config.Given(field.key) && rule.unused(config);
    if (!unused || (only_refused && !rule.refused) || PrintValue(field, config) == PrintValue(field, defaults))
      continue;
    lines.push_back(fmt::format("{}has no effect, as {}, or remove it", PlaceOf(config, field.key), rule.why));
  }
  return lines;
}

}  // namespace

std::vector<std::string> UnusedKeys(const Config& config) {
  std::vector<std::string> lines;
  for (const Field& field : Schema()) {
    if (field.absent && field.absent(config) && config.Given(field.key))
      lines.push_back(
          fmt::format("{}has no effect, as family {} does not read it; give another family ({}), or remove it",
                      PlaceOf(config, field.key), config.model.family, FamiliesOf(field)));
    for (const std::string& line : LinesOf(config, field, false)) lines.push_back(line);
  }
  for (const std::string& line : RowsWithoutEffect(config)) lines.push_back(line);
  return lines;
}

absl::Status CheckUsed(const Config& config) {
  for (const Field& field : Schema())
    for (const std::string& line : LinesOf(config, field, true)) return absl::InvalidArgumentError(line);
  return absl::OkStatus();
}

}  // namespace weft
