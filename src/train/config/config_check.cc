#include "weft/train/config/config_check.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/base/rng.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/run_name.h"

#include "weft/parallel/nn/family/family.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/pattern_check.h"

namespace weft {
namespace {

class Faults {
 public:
  explicit Faults(const Config& config) : config_(config) {}

  // Records a fault of `key` unless `holds` is true.
  void Check(bool holds, const std::string& key, const std::string& what) {
    if (!holds) lines_.push_back(PlaceOf(config_, key) + what);
  }
  std::vector<std::string> lines_;

 private:
  const Config& config_;
};

void CheckRequired(const Config& config, Faults& faults) {
  const ModelConfig& model = config.model;
  bool sizes = model.preset.empty();
  auto require = [&](const char* key, int64_t value) {
    faults.Check(value > 0, key, "is required; add it" + std::string(sizes ? ", or model.preset" : ""));
  };
  faults.Check(
      !sizes || config.Given("model.family"), "model.family",
      fmt::format("is required; add it ({}), or model.preset", fmt::join(FindField("model.family")->choices, ", ")));
  require("model.layers", model.layers);
  require("model.heads", model.heads);
  require("model.dim", model.dim);
  require("model.context", model.context);
  faults.Check(config.train.steps > 0, "train.steps", "is required; add it");
  faults.Check(config.train.global_batch > 0, "train.global_batch", "is required; add it");
  faults.Check(!config.data.train.empty() || config.data.synthetic, "data.train",
               "is required; give a text file, token shards or a folder, or data.synthetic: true");
}

// By the family's Objective.
struct ObjectiveText {
  const char *name, *why;
};
constexpr ObjectiveText kObjectives[] = {{"next", "sees the tokens before one only"},
                                         {"masked", "sees both sides of a token"},
                                         {"pairs", "writes a text from a source"}};

void CheckModel(const Config& config, Faults& faults) {
  const ModelConfig& model = config.model;
  if (model.dim < 1 || model.heads < 1 || model.kv_heads < 1) return;  // reported as missing
  auto head_dim = model.own_integers.find("head_dim");
  bool own_heads = head_dim != model.own_integers.end() && head_dim->second > 0;
  faults.Check(own_heads || model.dim % model.heads == 0, "model.dim",
               fmt::format("expected a multiple of model.heads = {}, got {}", model.heads, model.dim));
  faults.Check(model.heads % model.kv_heads == 0, "model.kv_heads",
               fmt::format("expected a divisor of model.heads = {}, got {}", model.heads, model.kv_heads));
  faults.Check(model.rope_factor == 1 || model.rope_low < model.rope_high, "model.rope_low",
               fmt::format("expected less than model.rope_high = {}, got {}", model.rope_high, model.rope_low));
  const ModelFamily* family = FindFamily(model.family);
  bool fits = family && (own_heads || model.dim % model.heads == 0) && model.heads % model.kv_heads == 0;
  bool same = !family || int(family->objective) == int(config.train.objective);
  faults.Check(same, "train.objective",
               fmt::format("expected {}, as family {} {}, got {}; give another model.family or remove the key",
                           same ? "" : kObjectives[size_t(family->objective)].name, model.family,
                           same ? "" : kObjectives[size_t(family->objective)].why,
                           PrintValue(*FindField("train.objective"), config)));
  if (!fits) return;
  TransformerConfig sizes = ModelOf(config);
  int64_t rotated = sizes.rotated_dims();
  bool even = sizes.rope_theta == 0 || (rotated > 0 && rotated % 2 == 0), whole = sizes.rotary_share == 1;
  faults.Check(even || !whole || own_heads, "model.dim",
               fmt::format("rotary embedding wants an even head width, got {} / {} heads = {}", model.dim, model.heads,
                           sizes.head_dim()));
  faults.Check(even || !own_heads, "model.head_dim",
               fmt::format("rotary embedding wants an even number, got {}", sizes.head_dim()));
  faults.Check(
      even || whole, "model.rotary_share",
      fmt::format(
          "rotary embedding wants an even number of dims, and at least 2, got {} of the {} of a head, which are {}",
          sizes.rotary_share, sizes.head_dim(), rotated));
}

double Elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0, [](double n, int64_t extent) { return n * double(extent); });
}

// Checks the model's sizes and the patterns that refer to its parts.
void CheckSizes(const Config& config, Faults& faults) {
  const ModelConfig& m = config.model;
  if (!faults.lines_.empty()) return;  // the model cannot be built
  TransformerConfig sizes = ModelOf(config);
  sizes.vocab = std::max<int64_t>(m.vocab, 1);  // an unknown vocab comes from a text, so it is small
  std::unique_ptr<Model> model;
  try {
    model = MakeModel(sizes);
  } catch (const Error& e) {  // what only the family knows
    return faults.Check(false, "model.family", e.what());
  }
  double parameters = 0;
  for (const Parameter* p : model->Parameters()) parameters += Elements(p->shape());
  faults.Check(
      parameters <= double(kMostElements), "model.dim",
      fmt::format("expected at most {:.0e} parameters, got {:.2g}, of which model.dim = {}, model.layers = {}, "
                  "model.ffn = {} and model.vocab = {} are the factors; lower one of them",
                  double(kMostElements), parameters, m.dim, m.layers, m.ffn, m.vocab));
  for (const std::string& fault : PatternFaults(config, *model)) faults.lines_.push_back(fault);
  double width = double(std::max({sizes.vocab, m.dim, m.ffn, m.heads * m.context}));
  double step = double(config.train.global_batch) * double(m.context) * width;
  faults.Check(step <= double(kMostElements), "train.global_batch",
               fmt::format("expected tensors of at most {:.0e} elements, got {:.2g} = train.global_batch {} x "
                           "model.context {} x {}, the widest of model.vocab, dim, ffn and heads x context; lower one",
                           double(kMostElements), step, config.train.global_batch, m.context, int64_t(width)));
}

void CheckPrecision(const Config& config, Faults& faults) {
  const PrecisionConfig& precision = config.precision;
  faults.Check(precision.params != DType::kF16, "precision.params",
               "f16 cannot hold master weights: updates below 1/2048 of a weight and second moments below 6e-8 would "
               "be lost; use f32 or bf16");
  faults.Check(
      precision.reduce != DType::kF16 || precision.compute == DType::kF16, "precision.reduce",
      fmt::format("f16 sums want a loss scale, which only precision.compute = f16 has, got {}; use f32 or bf16",
                  Name(precision.compute)));
  bool narrow = precision.wire == WireMode::kBf16;
  faults.Check(!narrow || precision.compute != DType::kF16, "precision.wire",
               "expected reduce with precision.compute = f16, got bf16, which has 8 significant bits where f16 has 11; "
               "give reduce, or precision.compute=bf16");
  faults.Check(!narrow || precision.reduce == DType::kF32, "precision.wire",
               fmt::format("expected reduce, as bf16 is for sums in f32, got bf16 with precision.reduce = {}; give "
                           "reduce, or precision.reduce=f32",
                           Name(precision.reduce)));
  faults.Check(precision.copies != CopyMode::kNever || config.parallel.fsdp != FsdpMode::kGradients, "precision.copies",
               "expected auto or always with parallel.fsdp = gradients, which keeps weights in the compute type, got "
               "never; give auto, or parallel.fsdp=full");
  faults.Check(config.loss_scale.min <= config.loss_scale.initial, "loss_scale.min",
               fmt::format("expected at most loss_scale.initial = {}, got {}", config.loss_scale.initial,
                           config.loss_scale.min));
}

// A number that the config holds in f64 and the step in `dtype`, f64 or f32.
struct StepNumber {
  const char* key;
  double value;
  DType dtype;
};

// A number below the smallest normal number of its type becomes 0 or loses most digits.
void CheckNotLost(const StepNumber& n, const char* consequence, Faults& faults) {
  constexpr double kLeast = std::numeric_limits<float>::min();
  bool lost = n.dtype != DType::kF64 && n.value > 0 && n.value < kLeast;
  faults.Check(!lost, n.key,
               fmt::format("expected at least {:.3g}, the least normal number of {}, got {}: {}", kLeast, Name(n.dtype),
                           n.value, consequence));
}

// Refuses values that rounding to the run's types would turn into something else.
void CheckRounding(const Config& config, Faults& faults) {
  DType forward = AccumulateType(config.precision.compute), update = AccumulateType(config.precision.params);
  const OptimizerConfig& optimizer = config.optimizer;
  CheckNotLost({"model.norm_eps", config.model.norm_eps, forward}, "a row of equal numbers would become NaN", faults);
  CheckNotLost({"optimizer.lr", optimizer.lr, update}, "no parameter would move", faults);
  CheckNotLost({"optimizer.eps", optimizer.eps, update}, "a parameter without a gradient would become NaN", faults);
  CheckNotLost({"train.clip", config.train.clip, update}, "every gradient would become 0", faults);
  for (double beta : optimizer.betas)
    faults.Check(update == DType::kF64 || float(beta) < 1, "optimizer.betas",
                 fmt::format("expected numbers below 1 in {}, got {}, which rounds to 1: a moment would never decay",
                             Name(update), beta));
  double p = config.model.dropout;
  uint32_t threshold = DropoutThreshold(p);
  faults.Check(
      threshold < 65536, "model.dropout",
      fmt::format("expected at most 65535/65536 (0.99998), got {}, which rounds to 1: all would be dropped", p));
  faults.Check(p == 0 || threshold > 0, "model.dropout",
               fmt::format("expected 0 or at least 1/131072, got {}, which rounds to 0: nothing would be dropped", p));
}

void CheckMesh(const Config& config, Faults& faults) {
  const auto& sizes = config.mesh.sizes;
  bool filled = false;
  for (size_t i = 0; i < kNumMeshAxes; i++) {
    bool fill = sizes[i] == MeshConfig::kFill;
    faults.Check(!fill || !filled, kMeshAxes[i].key,
                 "expected one axis of -1 (fill) at most, got two; give this one a size");
    filled |= fill;
  }
  faults.Check(config.mesh.ranks() <= kMaxRanks, "mesh",
               fmt::format("expected at most {} ranks, got {}", kMaxRanks, ToString(MeshOf(config))));
}

void CheckTraining(const Config& config, Faults& faults) {
  const TrainConfig& train = config.train;
  faults.Check(train.steps < 1 || config.schedule.warmup_steps <= train.steps, "schedule.warmup_steps",
               fmt::format("expected at most train.steps = {}, got {}; lower it with schedule.warmup_steps=N",
                           train.steps, config.schedule.warmup_steps));
  faults.Check(config.schedule.min_lr <= config.optimizer.lr, "schedule.min_lr",
               fmt::format("expected at most optimizer.lr = {}, got {}", config.optimizer.lr, config.schedule.min_lr));
  CheckMesh(config, faults);
  faults.Check(!config.log.ops || config.executor == ExecutorMode::kInterpret, "log.ops",
               "only executor: interpret runs op by op; set it too");
  bool vocab_known = config.data.tokenizer != "chars" || config.model.vocab > 0;
  faults.Check(!config.data.synthetic || vocab_known, "data.tokenizer",
               "chars takes its vocabulary from a text, but data.synthetic has none; set model.vocab or use bytes");
}

void CheckRun(const Config& config, Faults& faults) {
  faults.Check(config.run.empty() || IsRunName(config.run), "run",
               fmt::format("expected a name of letters, digits, '.', '_' and '-' that begins with a letter or a digit, "
                           "got {:?}; its folder is {}/NAME",
                           config.run, kRunsFolder));
}

void CheckCheckpoint(const Config& config, Faults& faults) {
  const CheckpointConfig& c = config.checkpoint;
  const char* add = "needs checkpoint.dir, got none; add checkpoint.dir=checkpoints, say";
  faults.Check(c.every == 0 || !c.dir.empty(), "checkpoint.every", add);
  faults.Check(c.resume != "auto" || !c.dir.empty(), "checkpoint.resume", fmt::format("auto {}", add));
}

void CheckProfile(const Config& config, Faults& faults) {
  const StepRange& steps = config.profile.steps;
  if (steps.empty()) return;
  auto check = [&](bool holds, const std::string& what) {
    faults.Check(holds, "profile.steps", fmt::format("{}, got [{}, {}]", what, steps.first, steps.last));
  };
  int64_t most = ProfileConfig::kMaxSteps;
  check(steps.first <= steps.last, "expected the first step and then the last");
  check(steps.last - steps.first < most,
        fmt::format("expected at most {} steps, as a trace of more is too large to look at", most));
  check(config.train.steps < 1 || steps.last <= config.train.steps,
        fmt::format("expected steps of the run, up to train.steps = {}", config.train.steps));
  faults.Check(config.executor == ExecutorMode::kCompiled, "profile.steps",
               "only executor: compiled runs a plan, call by call; remove one of the two keys");
  faults.Check(!config.profile.path.empty(), "profile.steps",
               "needs profile.path, got none; add profile.path=trace.json, or run=NAME");
}

void CheckBuilt(const Config& config, Faults& faults) {
  for (const Field& field : Schema()) {
    bool refused = field.not_built && field.not_built(config);
    if (refused) {
      faults.Check(false, field.key, fmt::format("{} is not built yet; {}", PrintValue(field, config), field.instead));
    }
  }
}

}  // namespace

std::string PlaceOf(const Config& config, const std::string& key) {
  for (const std::string& place : {key, key.substr(0, key.find('.')), std::string()}) {
    if (auto found = config.origins.find(place); found != config.origins.end()) {
      return fmt::format("{}{}: ", found->second, key);
    }
  }
  return key + ": ";
}

absl::Status RefuseKey(const Config& config, const std::string& key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(PlaceOf(config, key), what));
}

std::string PlaceOfItem(const Config& config, const std::string& key, const ItemPlace& item) {
  if (item.file.empty() && FromCommandLine(config, key)) return fmt::format("{}{}: ", kCommandLine, key);
  return fmt::format("{}:{}:{}: {}: ", item.file.empty() ? config.file : item.file, item.line, item.column, key);
}

bool FromCommandLine(const Config& config, const std::string& key) {
  auto found = config.origins.find(key);
  return found != config.origins.end() && found->second == kCommandLine;
}

std::vector<std::string> CheckConfig(const Config& config, std::span<const ConfigRule> rules) {
  Faults faults(config);
  CheckRequired(config, faults);
  CheckModel(config, faults);
  CheckPrecision(config, faults);
  CheckRounding(config, faults);
  CheckTraining(config, faults);
  CheckSizes(config, faults);
  for (ConfigRule rule : rules)
    for (const ConfigFault& fault : rule(config)) faults.Check(false, fault.key, fault.what);
  CheckRun(config, faults);
  CheckCheckpoint(config, faults);
  CheckProfile(config, faults);
  CheckBuilt(config, faults);
  return faults.lines_;
}

}  // namespace weft
