#include "weft/train/config/config_schema.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/optimizer/optimizer.h"
#include "weft/parallel/step/loss_scale.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/optimizer_groups.h"
#include "weft/train/config/plan_value.h"
#include "weft/train/config/recompute_value.h"
#include "weft/train/config/schedule.h"

namespace weft {
namespace {

template <class E>
struct EnumNames;
#define WEFT_ENUM_NAMES(type, ...)                         \
  template <>                                              \
  struct EnumNames<type> {                                 \
    static constexpr const char* kNames[] = {__VA_ARGS__}; \
  }
WEFT_ENUM_NAMES(FsdpMode, "none", "gradients", "full");
WEFT_ENUM_NAMES(RegatherMode, "auto", "always", "never");
WEFT_ENUM_NAMES(CopyMode, "auto", "always", "never");
WEFT_ENUM_NAMES(CombineMode, "auto", "true", "false");
WEFT_ENUM_NAMES(ActivationGrads, "separate", "fused");
WEFT_ENUM_NAMES(OverlapMode, "auto", "never", "always", "fill", "halves", "chunks");
WEFT_ENUM_NAMES(GatherMode, "kernels", "copy");
WEFT_ENUM_NAMES(CheckMode, "none", "explicit");
WEFT_ENUM_NAMES(WireMode, "reduce", "bf16");
WEFT_ENUM_NAMES(TrainObjective, "next", "masked", "pairs");
WEFT_ENUM_NAMES(DeviceChoice, "auto", "cpu", "cuda");
WEFT_ENUM_NAMES(ExecutorMode, "compiled", "interpret", "eager");
WEFT_ENUM_NAMES(NumericsMode, "default", "invariant");
WEFT_ENUM_NAMES(AttentionBackend, "auto", "cudnn", "flash", "plain");
WEFT_ENUM_NAMES(DType, "f64", "f32", "bf16", "f16");  // the floating types, in DType's order
#undef WEFT_ENUM_NAMES

template <class T>
FieldRef Ref(T& member) {
  if constexpr (std::is_enum_v<T>) {
    return EnumRef{EnumNames<T>::kNames, [&member] { return int(member); }, [&member](int i) { member = T(i); }};
  } else {
    return &member;
  }
}

// For a key of `optimizer` that is not printed if each optimizer of the run uses its own default.
std::function<bool(const Config&)> LeftOut(const char* key) {
  return [key](const Config& c) { return LeftToOptimizers(c, key); };
}

FieldRef RefOfTrain(Config& c) { return TrainRef{&c.data.train, &c.data.mixture}; }

// Returns the names of a table's rows.
template <class Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto* row : rows) names.push_back(row->name);
  return names;
}

// Returns the default of a key of `optimizer` for each optimizer that reads it: "adamw 1e-08, muon 1e-08".
std::string ByOptimizer(std::string_view key, std::string (*print)(const OptimizerOptions&)) {
  std::vector<std::string> texts;
  for (const OptimizerRule* rule : OptimizerRules())
    if (key.empty() || rule->Reads(key)) texts.push_back(fmt::format("{} {}", rule->name, print(rule->defaults)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns the plans of the families, for the default of parallel.plan: "the family's: bert of bert, else megatron".
std::string PlansOfFamilies() {
  std::string text = "the family's: ", usual = ModelFamily().plan;
  for (const ModelFamily* family : ModelFamilies())
    if (family->plan != usual) text += fmt::format("{} of {}, ", family->plan, family->name);
  return text + "else " + usual;
}

// Returns the names of the families that `has` accepts.
std::string FamiliesIn(absl::FunctionRef<bool(const ModelFamily&)> has) {
  std::vector<std::string> names;
  for (const ModelFamily* family : ModelFamilies())
    if (has(*family)) names.push_back(family->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the keys of the model families. A key that two families share gets the row of the first.
std::vector<Field> FamilyFields() {
  static std::deque<std::string> texts;  // owns the strings that rows point to
  auto text = [](std::string s) { return texts.emplace_back(std::move(s)).c_str(); };
  std::vector<Field> fields;
  for (const ModelFamily* family : ModelFamilies())
    for (const FamilyKey& key : family->keys) {
      std::string name = key.name;
      auto same = [&](const Field& f) { return f.key == "model." + name; };
      if (std::any_of(fields.begin(), fields.end(), same)) continue;
      auto has = [&](const ModelFamily& f) { return f.FindKey(name) != nullptr; };
      std::string value = key.flag ? (key.otherwise != 0 ? "true" : "false") : fmt::format("{}", key.otherwise);
      Field field{.key = text("model." + name), .help = text(FamiliesIn(has) + ": " + key.help)};
      field.default_text = text(value);
      field.bounds = {.low = key.low, .high = key.high};
      field.absent = [name](const Config& c) {
        const ModelFamily* mine = FindFamily(c.model.family);
        return !mine || !mine->FindKey(name);
      };
      field.ref = [name, flag = key.flag, integer = key.integer](Config& c) -> FieldRef {
        if (integer) return &c.model.own_integers[name];
        double& own = c.model.own[name];
        if (!flag) return &own;
        static constexpr const char* kFlag[] = {"false", "true"};
        return EnumRef{kFlag, [&own] { return int(own); }, [&own](int i) { own = i; }};
      };
      fields.push_back(std::move(field));
    }
  return fields;
}

// The limits on integers. They exceed any real use, and are small enough that products of two fit in 64 bits.
// CheckSizes in config_check.cc limits values that depend on several keys, such as parameters and tensor elements.
constexpr double kMostLayers = 10'000;
constexpr double kMostHeads = 65'536;
constexpr double kMostWidth = 1 << 20;
constexpr double kMostFfn = 1 << 24;
constexpr double kMostTokenKinds = std::numeric_limits<int32_t>::max();  // token ids have 32 bits
constexpr double kMostThreads = 4096;
constexpr double kBillion = 1e9;  // for steps, sequences, tokens of a sequence, seconds

constexpr Bounds AtLeast(double low) { return {.low = low}; }
constexpr Bounds From(double low, double high) { return {.low = low, .high = high}; }
constexpr Bounds Above(double low) { return {.low = low, .low_open = true}; }
constexpr Bounds HalfOpen(double low, double high) { return {.low = low, .high = high, .high_open = true}; }

// The key is the spelling of the member, so the two cannot differ.
#define KEY(member, text) .key = #member, .ref = [](Config& c) -> FieldRef { return Ref(c.member); }, .help = text
#define NOT_BUILT(condition) .not_built = [](const Config& c) { return condition; }

template <size_t... kAxis>
std::array<Field, kNumMeshAxes> AxisFields(std::index_sequence<kAxis...>) {
  return {Field{.key = kMeshAxes[kAxis].key,
                .ref = [](Config& c) -> FieldRef { return &c.mesh.sizes[kAxis]; },
                .help = kMeshAxes[kAxis].help,
                .bounds = From(1, double(kMaxRanks)),
                .word = "-1",
                .word_value = MeshConfig::kFill}...};
}

// The defaults of the `optimizer` keys, listed per optimizer.
struct OptimizerTexts {
  using Of = const OptimizerOptions&;
  std::string betas = ByOptimizer("betas", [](Of o) { return fmt::format("[{}, {}]", o.beta1, o.beta2); });
  std::string eps = ByOptimizer("eps", [](Of o) { return fmt::format("{}", o.eps); });
  std::string momentum = ByOptimizer("momentum", [](Of o) { return fmt::format("{}", o.momentum); });
  std::string nesterov = ByOptimizer("nesterov", [](Of o) { return fmt::format("{}", o.nesterov); });
  std::string decay = ByOptimizer("", [](Of o) { return fmt::format("{}", o.weight_decay); });
};
// The texts that name model families.
struct FamilyTexts {
  std::string family = fmt::format("the architecture, one of the files in src/parallel/nn/models: {}",
                                   fmt::join(NamesOf(ModelFamilies()), ", "));
  std::string plan = PlansOfFamilies();
  std::string tied = fmt::format("the family's: false of {}, else true",
                                 FamiliesIn([](const ModelFamily& f) { return !f.tie_embeddings; }));
  std::string rope = fmt::format("base of the rotary embedding, in families that have one ({})",
                                 FamiliesIn([](const ModelFamily& f) { return f.configure({}).rope_theta != 0; }));
};
const FamilyTexts& OfFamilies() {
  static const FamilyTexts texts;
  return texts;
}
const OptimizerTexts& Texts() {
  static const OptimizerTexts texts;
  return texts;
}

// clang-format off
const std::vector<Field>& Fields() {
  static const std::vector<Field> fields = {
      {KEY(model.preset, "a published model's sizes; other model keys override it"),
       .choices = {"gpt2_124m", "gpt2_355m", "gpt2_774m", "gpt2_1558m", "llama3_1b", "llama3_8b"},
       .default_text = "none"},
      {KEY(model.family, OfFamilies().family.c_str()),
       .choices = NamesOf(ModelFamilies()), .type_text = "a model family", .default_text = "required without preset"},
      {KEY(model.layers, "transformer blocks"), .bounds = From(1, kMostLayers), .default_text = "required without preset"},
      {KEY(model.heads, "query heads; divides dim"),
       .bounds = From(1, kMostHeads), .default_text = "required without preset"},
      {KEY(model.kv_heads, "key and value heads; divides heads"), .bounds = From(1, kMostHeads), .default_text = "heads"},
      {KEY(model.dim, "width of the residual stream"),
       .bounds = From(1, kMostWidth), .default_text = "required without preset"},
      {KEY(model.ffn, "hidden width of the MLP"), .bounds = From(1, kMostFfn),
       .default_text = "the family's: llama 8/3 dim and mistral 7/2 dim, up to a multiple of 64; others 4 dim"},
      {KEY(model.vocab, "token kinds; not below the tokenizer's; required with token shards unless data.tokenizer has a file"),
       .bounds = From(1, kMostTokenKinds), .default_text = "the tokenizer's"},
      {KEY(model.context, "tokens of a sequence"), .bounds = From(1, kBillion), .default_text = "required without preset"},
      {KEY(model.dropout, "probability of dropping, to the nearest 1/65536"), .bounds = HalfOpen(0, 1)},
      {KEY(model.tie_embeddings, "the output product uses the token embedding"),
       .default_text = OfFamilies().tied.c_str()},
      {KEY(model.norm_eps, "epsilon of the norms"), .bounds = Above(0)},
      {KEY(model.rope_theta, OfFamilies().rope.c_str()), .bounds = Above(0)},
      {KEY(model.rope_factor, "Llama 3.1's scaling of the rotary embedding to longer contexts; 1: none"), .bounds = AtLeast(1)},
      {KEY(model.rope_low, "a frequency of fewer turns in rope_context tokens is divided by rope_factor"), .bounds = Above(0)},
      {KEY(model.rope_high, "a frequency of more turns stays; one between the two is divided in part"), .bounds = Above(0)},
      {KEY(model.rope_context, "tokens of a sequence before the scaling"), .bounds = From(1, kBillion)},
      {KEY(model.init, "weights to start from: a safetensors file of Hugging Face's, or its folder"),
       .default_text = "none: random"},
      {KEY(model.init_neutral, "keys of model.init's config.json that Weft does not know and that change no numbers"),
       .type_text = "a name or a list of names", .default_text = "none"},

      {.key = "data.train", .ref = RefOfTrain,
       .help = "text files, JSONL (both also as gzip or Zstandard) or token shards, folders or globs; sources of a mixture share the sequences by weight", .per_rank = true, .default_text = "required unless synthetic"},
      {KEY(data.val, "validation text or shards, or the fraction of the training data cut off its tail; 0: no evaluation"),
       .bounds = HalfOpen(0, 1), .per_rank = true, .default_text = "none"},
      {KEY(data.tokenizer, "tokenizer of text: bytes; chars: the sorted code points of the text, or of a table; else a published one: huggingface: a folder, a tokenizer.json or a tokenizer.model; sentencepiece: a model; tiktoken: lines of base64"),
       .choices = {"bytes", "chars", "chars:", "huggingface:", "sentencepiece:", "tiktoken:"},
       .default_text = "that of model.init's folder, else bytes"},
      {KEY(data.field, "field of a JSONL record that holds its text; for pairs two: source -> target"), .default_text = "text; for pairs source -> target"},
      {KEY(data.shuffle, "sequences start at random offsets; false: consecutive windows")},
      {KEY(data.synthetic, "random tokens instead of data.train; no evaluation")},

      {KEY(parallel.plan, "how tensors lie on a mesh: a plan by name, and rows that are added to it; the last row that matches and names an axis counts"),
       .choices = NamesOf(NamedPlans()), .default_text = OfFamilies().plan.c_str()},
      {KEY(parallel.sequence_parallel, "shard the sequence over tp between tensor parallel blocks")},
      {KEY(parallel.fsdp, "what dp ranks shard; gradients: gradients and moments, and weights in the compute type are kept between steps; full: the parameters too")},
      {KEY(parallel.regather, "with fsdp full, whether the backward pass gathers weights again; auto: on CPUs always, on GPUs only if they lack the memory to keep them")},
      {KEY(parallel.overlap, "whether collectives run at the same time as kernels; fill: gradients of weights are computed while others wait; halves: the other half of the batch is computed meanwhile; chunks: a batch is computed in chunks of its sequences, or a sequence in chunks of its tokens, and while one chunk is on its way another is computed; auto: fill on GPUs with mesh.tp above 1, always on other GPUs and on CPUs of several hosts, never on CPUs of one host")},
      {KEY(parallel.chunks, "the number of chunks of overlap chunks, 2 to 64; 0: two of sequences, or two or four of tokens, where they are expected to save time"), .bounds = From(0, 64)},
      {KEY(parallel.gather, "how GPUs gather weights that fsdp full shards, and activations, and exchange the gradients of precision.wire bf16: by NCCL's kernels, or by copy engines, which leave the multiprocessors to the step's kernels and then also exchange the terms of reduce-scatters in bf16")},
      {KEY(parallel.symmetric_memory, "on GPUs of one host, map the memory of a step's activations into all ranks of an axis, so that NCCL's symmetric kernels make its collectives")},
      {KEY(parallel.check, "explicit: refuse a model or plan that leaves a collective to be inserted")},

      {KEY(precision.compute, "type of activations and products; f16 trains with a loss scale")},
      {KEY(precision.params, "type of the master weights; not f16"), .default_text = "the wider of f32 and compute"},
      {KEY(precision.reduce, "type in which gradients are summed over ranks; f16 with compute f16 only"),
       .default_text = "the wider of f32 and compute"},
      {KEY(precision.wire, "type in which gradients cross ranks; bf16: half the bytes, each rounded before it is sent, and summed in f32 in rank order; needs reduce f32, not with compute f16")},
      {KEY(precision.copies, "whether ranks keep their weights in the compute type too, which the optimizer writes together with the master weights, so that no step casts them; auto: not with fsdp full")},

      {KEY(loss_scale.initial, "with compute f16, the first factor by which the mean loss is multiplied for its gradients"),
       .bounds = From(LossScaleOptions::kLeast, LossScaleOptions::kMost)},
      {KEY(loss_scale.growth_factor, "factor by which the scale grows after growth_interval updates in a row"), .bounds = Above(1)},
      {KEY(loss_scale.backoff_factor, "factor by which the scale changes if a gradient is not finite; that step updates nothing"),
       .bounds = {.low = 0, .high = 1, .low_open = true, .high_open = true}},
      {KEY(loss_scale.growth_interval, "updates in a row after which the scale grows"), .bounds = From(1, kBillion)},
      {KEY(loss_scale.min, "least scale; gradients that are not finite even there end the run"),
       .bounds = From(LossScaleOptions::kLeast, LossScaleOptions::kMost)},

      {KEY(kernels.deterministic, "no kernel that may give other bits on the next run; false allows faster ones on a GPU, and measures which backend of attention is the fastest")},
      {KEY(kernels.tf32, "products of f32 on a GPU may round their operands to TF32, of 11 significant bits")},
      {KEY(kernels.combine, "computes queries, keys and values as one product, and the gate and the up projection of an MLP as another, forward and backward, where they have no biases; with overlap halves, the gradient of a weight is one product of both; takes memory for copies of weights that are not cast; auto: on GPUs, with compute narrower than params, and fsdp full or tensor parallel ranks, but not where overlap chunks cuts sequences")},
      {KEY(kernels.activation_grads, "fused: on GPUs, the product before the gradient of a GELU (the form with tanh) or SwiGLU computes that gradient too, before its result is written: GELU in 16 bits, SwiGLU in bf16 on sm_90 with sizes that the tiles divide; other products and gradients stay two kernels")},
      {KEY(kernels.logits, "GiB of logits that a GPU holds at a time, where the product that makes them is fused with the loss and its gradient; more take less time, as each part of them but the first reads and writes the gradient of that product's weights"),
       .bounds = {.low = 0, .high = 1e6, .low_open = true}},
      {KEY(kernels.attention, "backend of attention on a GPU, if it takes the call; auto: the first of cudnn, flash, plain, but on Hopper flash where its gradient in one pass takes less time, or the fastest if kernels.deterministic is false")},

      {KEY(optimizer.name, "the update rule"), .choices = NamesOf(OptimizerRules())},
      {KEY(optimizer.lr, "learning rate after the warm-up"), .bounds = Above(0)},
      {KEY(optimizer.betas, "decay of the two moments of adamw (also for the parameters that muon leaves to it), or of lion's mean as used and as kept"),
       .bounds = kBetaBounds, .default_text = Texts().betas.c_str(), .absent = LeftOut("optimizer.betas")},
      {KEY(optimizer.eps, "added to the root of the second moment"), .bounds = kEpsBounds, .default_text = Texts().eps.c_str(), .absent = LeftOut("optimizer.eps")},
      {KEY(optimizer.momentum, "share of the last step that is kept"), .bounds = kMomentumBounds, .default_text = Texts().momentum.c_str(), .absent = LeftOut("optimizer.momentum")},
      {KEY(optimizer.nesterov, "look ahead by a step of momentum"), .default_text = Texts().nesterov.c_str(), .absent = LeftOut("optimizer.nesterov")},
      {KEY(optimizer.weight_decay, "weight decay of product weights and embeddings"), .bounds = kDecayBounds, .default_text = Texts().decay.c_str(), .absent = LeftOut("optimizer.weight_decay")},
      {KEY(optimizer.groups, "settings of some parameters: match is a pattern of their paths, lr_scale multiplies the learning rate, weight_decay applies to all that match (norms and biases too), optimizer names another; only the last group that matches a parameter counts"),
       .default_text = "none"},

      {KEY(schedule.name, "shape of the learning rate after the warm-up"), .choices = NamesOf(Schedules())},
      {KEY(schedule.warmup_steps, "steps of linear warm-up; at most train.steps"), .bounds = From(0, kBillion)},
      {KEY(schedule.min_lr, "learning rate that the decay would reach one step after the last, and the lowest of inverse_sqrt; at most lr"), .bounds = AtLeast(0)},

      {KEY(train.steps, "updates"), .bounds = From(1, kBillion), .default_text = "required"},
      {KEY(train.global_batch, "sequences of a step over all ranks"),
       .bounds = From(1, kBillion), .default_text = "required"},
      {KEY(train.micro_batch, "sequences of a dp rank at once"),
       .bounds = From(1, kBillion), .default_text = "the rank's whole share"},
      {KEY(train.seed, "seed of weights, dropout and data order"), .bounds = AtLeast(0)},
      {KEY(train.objective, "what the model predicts at a token: next: the token after it; masked: the token itself, for 15 % that are masked or replaced; pairs: the token after it, in a text written from a source"),
       .default_text = "the family's: masked of bert, pairs of marian, else next"},
      {KEY(train.clip, "greatest norm of the gradient; 0: no clipping"), .bounds = AtLeast(0)},
      {KEY(train.label_smoothing, "share of a target's probability spread over all token kinds; not in evaluation"),
       .bounds = HalfOpen(0, 1)},
      {KEY(train.recompute, "values of the forward pass that the backward pass computes again instead of keeping them; selective: all that need no product and no collective; full: all but the operand of each block; budget: as few as let a rank need so many GiB, besides the data of a CPU"),
       .choices = RecomputeNames()},
      {KEY(train.eval_every, "steps between evaluations; 0: after the last step only"), .bounds = From(0, kBillion)},
      {KEY(train.eval_batches, "global batches of an evaluation"), .bounds = From(1, kBillion), .word = "all",
       .word_value = TrainConfig::kAllBatches},
      {KEY(train.sample_every, "steps between texts that the model writes, for the terminal; 0: none"), .bounds = From(0, kBillion)},

      {KEY(device, "where tensors live; auto: GPUs where every rank gets its own, else the CPU")},
      {.key = "device.memory", .ref = [](Config& c) -> FieldRef { return &c.device_memory; },
       .help = "GiB that each GPU is taken to have: a run that needs more is refused, and parallel.regather: auto goes by it; 0: what the GPU has",
       .bounds = From(0, 1e6)},
      {KEY(executor, "replay the plan, run it node by node, or build and run eagerly")},
      {KEY(numerics, "invariant: bit-equal losses on every mesh"),
       NOT_BUILT(c.numerics == NumericsMode::kInvariant), .instead = "use default"},
      {KEY(threads, "worker threads of a rank; auto: its share of the cores that ranks of its host may use"), .bounds = From(1, kMostThreads), .word = "auto", .per_rank = true},

      {KEY(dist.timeout_s, "seconds after which a rank that the others wait for ends the job; a save that progresses is waited for"),
       .bounds = {.low = 0, .high = kBillion, .low_open = true}},

      {KEY(run, "name of the run: its checkpoints, log, merged config, TensorBoard files and profile go to runs/NAME, or to the first of NAME-2, NAME-3, ... that no run has; a key that sets a path takes precedence"), .default_text = "none"},

      {KEY(checkpoint.dir, "folder of the checkpoints; the state after the last step is always saved there"),
       .default_text = "none: nothing is saved"},
      {KEY(checkpoint.every, "steps between checkpoints; 0: after the last step only"), .bounds = From(0, kBillion)},
      {KEY(checkpoint.keep, "newest checkpoints of the run that are kept; 0: all"), .bounds = From(0, kBillion)},
      {KEY(checkpoint.resume, "never, auto (the newest whole one in dir; none: from the beginning), or the folder of one")},

#define WEFT_LOG_OUTPUT(name, text) {KEY(log.name, text), .per_rank = true, .default_text = "none"},
#include "weft/train/config/log_outputs.def"
#undef WEFT_LOG_OUTPUT
      {KEY(log.every, "steps between lines on the terminal"), .bounds = From(1, kBillion), .per_rank = true},
      {KEY(log.ops, "print every op as executor: interpret runs it (rank 0, to stderr)"), .per_rank = true},

      {KEY(profile.steps, "the first and the last of the steps that are timed call by call: their trace goes to profile.path, a summary to the terminal"),
       .bounds = From(1, kBillion), .default_text = "none"},
      {KEY(profile.path, "file that gets the trace, which ui.perfetto.dev opens; an older file is moved to FILE.1, FILE.2, ..."),
       .per_rank = true, .default_text = "none; trace.json of a run's folder"},
  };
  // clang-format on
  return fields;
}

// Adds the keys of the families to the section `model`, and the mesh axes before the section `parallel`.
std::vector<Field> AllFields() {
  std::vector<Field> fields = Fields(), own = FamilyFields();
  auto behind = std::find_if(fields.begin(), fields.end(),
                             [](const Field& f) { return !std::string_view(f.key).starts_with("model."); });
  fields.insert(behind, own.begin(), own.end());
  auto axes = AxisFields(std::make_index_sequence<kNumMeshAxes>());
  auto parallel = std::find_if(fields.begin(), fields.end(),
                               [](const Field& f) { return std::string_view(f.key).starts_with("parallel."); });
  fields.insert(parallel, axes.begin(), axes.end());
  return fields;
}
#undef KEY
#undef NOT_BUILT

struct TypeName {
  const Field& field;
  std::string operator()(bool*) const { return "true or false"; }
  std::string operator()(int64_t*) const {
    return fmt::format("an integer{}{}", BoundsText(field.bounds), field.word ? fmt::format(" or {}", field.word) : "");
  }
  std::string operator()(double*) const { return "a number" + BoundsText(field.bounds); }
  std::string operator()(std::string*) const {
    std::vector<std::string> shown = field.choices;
    for (std::string& choice : shown) choice += choice.ends_with(':') ? "PATH" : "";
    return shown.empty() ? "a string" : fmt::format("one of {}", fmt::join(shown, ", "));
  }
  std::string operator()(PathList*) const { return field.type_text ? field.type_text : "a path or a list of paths"; }
  std::string operator()(const TrainRef&) const {
    return "a path, a list of paths, or a list of {path, weight, field}";
  }
  std::string operator()(std::vector<OptimizerGroup>*) const { return kGroupsForm; }
  std::string operator()(PlanConfig*) const {
    return fmt::format("one of {}, a file, or {}", fmt::join(field.choices, ", "), kPlanForms);
  }
  std::string operator()(RecomputeConfig*) const {
    return fmt::format("one of {}, or {}", fmt::join(field.choices, ", "), kBudgetForm);
  }
  std::string operator()(std::array<double, 2>*) const { return "two numbers" + BoundsText(field.bounds); }
  std::string operator()(StepRange*) const {
    return fmt::format("[first, last], two integers{}", BoundsText(field.bounds));
  }
  std::string operator()(ValSource*) const { return "a path, a list of paths, or a number" + BoundsText(field.bounds); }
  std::string operator()(const EnumRef& ref) const {
    return fmt::format("{}{}", ref.names.size() > 1 ? "one of " : "", fmt::join(ref.names, ", "));
  }
};

}  // namespace

std::span<const Field> Schema() {
  static const std::vector<Field> fields = AllFields();
  return fields;
}

const Field* FindField(std::string_view key) {
  static const absl::flat_hash_map<std::string_view, const Field*> index = [] {
    absl::flat_hash_map<std::string_view, const Field*> fields;
    for (const Field& field : Schema()) fields.try_emplace(field.key, &field);
    return fields;
  }();
  auto found = index.find(key);
  return found == index.end() ? nullptr : found->second;
}

namespace {

// Returns the part before the dot, unless that is a key itself: device.memory is a top-level key.
std::string SectionOf(std::string_view key) {
  size_t dot = key.find('.');
  return dot == key.npos || FindField(key.substr(0, dot)) ? "" : std::string(key.substr(0, dot));
}

}  // namespace

std::vector<std::string> SectionNames() {
  std::vector<std::string> names;
  for (const Field& field : Schema()) {
    std::string section = SectionOf(field.key);
    if (std::find(names.begin(), names.end(), section) == names.end()) names.push_back(section);
  }
  return names;
}

std::vector<std::string> KeysOf(std::string_view section) {
  std::vector<std::string> keys;
  for (const Field& field : Schema()) {
    if (SectionOf(field.key) == section) keys.push_back(field.key);
  }
  return keys;
}

std::string TypeText(const Field& field) {
  Config config;
  return TypeText(field, field.ref(config));
}

std::string TypeText(const Field& field, const FieldRef& ref) { return std::visit(TypeName{field}, ref); }

std::string DefaultText(const Field& field) {
  Config defaults;
  return field.default_text ? field.default_text : PrintValue(field, defaults);
}

}  // namespace weft
