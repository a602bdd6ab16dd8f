#include "weft/train/config/config_presets.h"

#include "fmt/format.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/optimizer/optimizer.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"

namespace weft {
namespace {

struct Preset {
  const char* name;
  const char* family;
  int64_t layers, heads, kv_heads, dim, ffn, vocab, context;
  bool tie_embeddings;
  double rope_theta;
};

// Sources: GPT-2, Radford et al. 2019; llama3_8b, Llama 3; llama3_1b, Llama 3.2 without its scaling to longer contexts
// (model.rope_factor: 32).
constexpr Preset kPresets[] = {
    {"gpt2_124m", "gpt2", 12, 12, 12, 768, 3072, 50257, 1024, true, 10000},
    {"gpt2_355m", "gpt2", 24, 16, 16, 1024, 4096, 50257, 1024, true, 10000},
    {"gpt2_774m", "gpt2", 36, 20, 20, 1280, 5120, 50257, 1024, true, 10000},
    {"gpt2_1558m", "gpt2", 48, 25, 25, 1600, 6400, 50257, 1024, true, 10000},
    {"llama3_1b", "llama", 16, 32, 8, 2048, 8192, 128256, 8192, true, 500000},
    {"llama3_8b", "llama", 32, 32, 8, 4096, 14336, 128256, 8192, false, 500000},
};

// Sets a key of the family to its value for all who do not give it.
void SetOwn(ModelConfig& model, const FamilyKey& key, double value) {
  if (key.integer)
    model.own_integers[key.name] = int64_t(value);
  else
    model.own[key.name] = value;
}

}  // namespace

void FillModel(Config& config) {
  ModelConfig& model = config.model;
  auto fill = [&](const char* key, auto& member, auto value) {
    if (!config.Given(key)) member = value;
  };
  bool kv_heads_known = false, ffn_known = false, tie_known = false;
  for (const Preset& preset : kPresets) {
    if (model.preset != preset.name) continue;
    // A preset's derived size applies only if the size it derives from is the preset's too.
    kv_heads_known = !config.Given("model.heads");
    ffn_known = !config.Given("model.dim");
    tie_known = true;
    fill("model.family", model.family, preset.family);
    fill("model.layers", model.layers, preset.layers);
    fill("model.heads", model.heads, preset.heads);
    fill("model.dim", model.dim, preset.dim);
    fill("model.vocab", model.vocab, preset.vocab);
    fill("model.context", model.context, preset.context);
    fill("model.tie_embeddings", model.tie_embeddings, preset.tie_embeddings);
    fill("model.rope_theta", model.rope_theta, preset.rope_theta);
    if (kv_heads_known) fill("model.kv_heads", model.kv_heads, preset.kv_heads);
    if (ffn_known) fill("model.ffn", model.ffn, preset.ffn);
  }
  const ModelFamily* family = FindFamily(model.family);
  if (!family) return;  // reported as missing
  if (!kv_heads_known) fill("model.kv_heads", model.kv_heads, model.heads);
  if (!ffn_known) fill("model.ffn", model.ffn, family->default_ffn(model.dim));
  if (!tie_known) fill("model.tie_embeddings", model.tie_embeddings, family->tie_embeddings);
}

void FillFamily(Config& config) {
  const ModelFamily* family = FindFamily(config.model.family);
  if (!family) return;  // reported as missing
  if (!config.Given("train.objective")) config.train.objective = TrainObjective(family->objective);
  if (family->objective == Objective::kPairs && !config.Given("data.field")) config.data.field = "source -> target";
  for (const FamilyKey& key : family->keys)
    if (!config.Given("model." + std::string(key.name))) SetOwn(config.model, key, key.otherwise);
}

void FillEarlier(Config& config) {
  const ModelFamily* family = FindFamily(config.model.family);
  if (!family) return;  // reported as missing
  for (const FamilyKey& key : family->keys) {
    std::string name = "model." + std::string(key.name);
    if (!key.earlier || config.Given(name)) continue;
    SetOwn(config.model, key, *key.earlier);
    config.notes.push_back(fmt::format("{}: no {}, as it is from before there was such a key: {}", config.file, name,
                                       PrintValue(*FindField(name), config)));
  }
}

void FillOptimizer(Config& config) {
  OptimizerConfig& optimizer = config.optimizer;
  const OptimizerRule* rule = FindOptimizer(optimizer.name);
  if (!rule) return;  // an unknown name is refused elsewhere
  const OptimizerOptions& own = rule->defaults;
  if (!config.Given("optimizer.betas")) optimizer.betas = {own.beta1, own.beta2};
  if (!config.Given("optimizer.eps")) optimizer.eps = own.eps;
  if (!config.Given("optimizer.momentum")) optimizer.momentum = own.momentum;
  if (!config.Given("optimizer.nesterov")) optimizer.nesterov = own.nesterov;
  if (!config.Given("optimizer.weight_decay")) optimizer.weight_decay = own.weight_decay;
}

}  // namespace weft
