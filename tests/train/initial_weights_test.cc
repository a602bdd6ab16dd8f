// Initial weights: a checkpoint in Hugging Face's layout gives its values to every mesh, and one that does not fit is
// refused by name.
#include "weft/train/huggingface/initial_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "parallel/testing.h"
#include "support/safetensors_testing.h"
#include "support/training.h"
#include "train/temp_folder.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/program/state.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/config/model_of.h"

namespace weft {
namespace {

using namespace testing_;
using Words = std::vector<std::string>;

Config ConfigOf(const std::string& family, const Words& overrides) {
  std::string yaml = "model: {family: " + family +
                     ", layers: 2, heads: 6, dim: 24, ffn: 35, context: 7, vocab: 37}\n"
                     "data: {synthetic: true}\ntrain: {steps: 3, global_batch: 5}\n";
  Words words = overrides;
  if (family == "neox") words.push_back("model.rotary_share=0.5");  // 2 of 4
  if (family == "gemma2" || family == "mistral") words.push_back("model.head_dim=6");
  absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", words);
  EXPECT_TRUE(config.ok()) << config.status();
  absl::Status resolved = Resolve(*config, int(config->mesh.ranks()));
  EXPECT_TRUE(resolved.ok()) << resolved;
  return *config;
}

// A value for every parameter, none twice.
Parameters RandomParameters(const Config& config, DType dtype = DType::kF32) {
  Parameters parameters;
  uint64_t seed = 0;
  std::unique_ptr<Model> model = MakeModel(ModelOf(config));
  for (const Parameter* p : model->Parameters()) parameters[p->path()] = test::Draw(p->shape(), seed++, dtype);
  return parameters;
}

RawTensors HfOf(const Config& config, const Parameters& p, DType type) {
  const ModelConfig& m = config.model;
  return HfLayout(m.family, p, m.layers, m.dim, type);
}

// Every entry of the state, assembled from the ranks, once the weights are loaded.
Parameters Loaded(const Config& config) {
  std::map<std::string, std::vector<Tensor>> chunks;
  std::map<std::string, std::pair<Shape, Sharding>> placed;
  std::mutex mutex;
  RunRanks(int(config.mesh.ranks()), [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(config));
    StepOptions options = StepOptionsOf(config);
    options.kernels = &context.kernels(DeviceKind::kCpu);
    Runtime runtime = RuntimeOf(context, mesh);
    TrainingStep step(ModelOf(config), options);
    State state(mesh.shape(), mesh.coords());
    step.AddEntries(state);
    absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights->Load(state, step.sharded(), runtime);
    std::lock_guard lock(mutex);
    for (const auto& [name, entry] : state.entries()) {
      if (name.starts_with("slot.")) continue;
      chunks[name].resize(size_t(context.world_size()));
      chunks[name][size_t(context.rank())] = entry.local;
      placed[name] = {entry.global, entry.sharding};
    }
  });
  Parameters whole;
  for (const auto& [name, of_ranks] : chunks)
    whole[name] = test::Assemble(of_ranks, placed[name].first, placed[name].second, MeshOf(config));
  return whole;
}

std::vector<double> Rounded(const Tensor& t, DType first, DType second) {
  return Tensor::FromDoubles(Tensor::FromDoubles(t.ToDoubles(), first, t.shape()).ToDoubles(), second, t.shape())
      .ToDoubles();
}

// On meshes that cut nothing evenly: parameters are the file's values, copies theirs in the type in which they are
// used, moments zero.
TEST(InitialWeights, AreTheFilesValuesOnEveryMesh) {
  TempFolder folder;
  const Words layouts[] = {{},
                           {"mesh.tp=3"},
                           {"mesh.dp=2", "mesh.tp=2"},
                           {"mesh.tp=4"},
                           {"mesh.dp=3", "parallel.fsdp=full"},
                           {"mesh.dp=2", "mesh.tp=2", "parallel.fsdp=gradients", "precision.compute=bf16"},
                           {"mesh.tp=2", "parallel.sequence_parallel=true", "precision.params=bf16"},
                           {"mesh.dp=2", "precision.compute=bf16"},
                           {"mesh.dp=2", "precision.compute=bf16", "precision.copies=never"},
                           {"mesh.dp=3", "parallel.fsdp=full", "precision.compute=bf16", "precision.copies=always"},
                           {"precision.compute=f64"}};
  for (const char* family : {"gpt2", "llama", "neox", "bert", "mistral", "gemma2"})
    for (DType stored : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16})
      for (const Words& layout : layouts) {
        Words words = layout;
        words.push_back("model.init=" + folder.Path("model.safetensors"));
        words.push_back("model.kv_heads=2");
        Config config = ConfigOf(family, words);
        Parameters want = RandomParameters(config, stored), got;
        folder.Write("model.safetensors", Pack(HfOf(config, want, stored)));
        got = Loaded(config);
        for (const auto& [path, value] : want) {
          DType params = config.precision.params, compute = config.precision.compute;
          EXPECT_EQ(got.at(path).ToDoubles(), Rounded(value, stored, params)) << family << " " << path;
          DType used = path.find("norm") == std::string::npos ? compute : AccumulateType(compute);
          bool gradients = config.parallel.fsdp == FsdpMode::kGradients;
          bool copied = gradients || (StepOptionsOf(config).model.copies && used != params);
          EXPECT_EQ(got.contains(CopyName(path)), copied) << path;
          if (copied) {
            EXPECT_EQ(got.at(CopyName(path)).dtype(), used) << path;
            EXPECT_EQ(got.at(CopyName(path)).ToDoubles(), Rounded(value, params, used)) << path;
          }
          for (const char* moment : {"adamw.m.", "adamw.v."})
            for (double m : got.at(moment + path).ToDoubles()) ASSERT_EQ(m, 0) << moment << path;
        }
      }
}

// Backwards, too: the parameters of a family fill its tensors, each element once.
class HfNames : public testing::TestWithParam<int> {};

TEST_P(HfNames, ParametersFillTheTensors) {
  for (const HfFamily* family : HfFamilies()) {
    bool tied = family->family == std::string("marian");  // its head is the embedding
    Config config = ConfigOf(
        family->family, {fmt::format("model.tie_embeddings={}", tied), fmt::format("model.kv_heads={}", GetParam())});
    std::map<std::string, std::vector<int>> filled;
    std::unique_ptr<Model> model = MakeModel(ModelOf(config));
    for (const Parameter* p : model->Parameters()) {
      std::optional<HfPlace> place = PlaceInHf(*family, p->path(), p->shape(), config.model.heads);
      ASSERT_TRUE(place) << p->path();
      std::vector<int>& of_tensor = filled[place->tensor];
      of_tensor.resize(size_t(NumElements(place->shape)));
      const Shape& shape = p->shape();
      for (int64_t i = 0; i < NumElements(shape); i++) {
        int64_t at = place->offset, rest = i;
        for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at += rest % shape[d] * place->strides[d];
        for (int64_t copy = 0; copy < place->copies; copy++) of_tensor.at(size_t(at + copy * place->copy_stride))++;
      }
    }
    for (const auto& [tensor, counts] : filled)
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), std::ptrdiff_t(counts.size())) << tensor;
  }
  EXPECT_EQ(FindHfFamily("none"), nullptr);
}
INSTANTIATE_TEST_SUITE_P(KvHeads, HfNames, testing::Values(1, 2, 3, 6));

// A parameter of a shape that the model does not have must not be written past the end of a tensor.
TEST(HfNamesCheck, RefusesABoxThatLeavesItsTensor) {
  const HfFamily& gpt2 = *FindHfFamily("gpt2");
  EXPECT_THROW(PlaceInHf(gpt2, "blocks.0.attn.k.bias", {4, 5}, 3), Error);
  EXPECT_EQ(PlaceInHf(gpt2, "blocks.0.attn.k.bias", {3, 5}, 6)->copies, 2);
}

// A changed checkpoint, and the message about it.
class Refusals : public testing::Test {
 protected:
  std::string Answer(const Words& overrides = {}) {
    Words words = overrides;
    words.push_back("model.init=" + folder_.Write("m.safetensors", Pack(tensors_)));
    absl::StatusOr<InitialWeights> weights = InitialWeights::Open(ConfigOf(family_, words));
    return weights.ok() ? "ok: " + weights->Summary() : std::string(weights.status().message());
  }
  void Start(const std::string& family, const Words& words = {}) {
    family_ = family;
    Config config = ConfigOf(family, words);
    tensors_ = HfOf(config, RandomParameters(config), DType::kF32);
  }
  void Expect(const std::string& text, const Words& overrides = {}) {
    std::string answer = Answer(overrides);
    EXPECT_NE(answer.find(text), answer.npos) << "expected " << text << "\ngot      " << answer;
    EXPECT_TRUE(answer.starts_with("ok") == (text.starts_with("ok") || text.starts_with(";"))) << answer;
    EXPECT_TRUE(answer.starts_with("ok") || answer.starts_with("command line: model.init: ")) << answer;
  }

  TempFolder folder_;
  std::string family_;
  RawTensors tensors_;
};

RawTensor Zeros(const std::vector<int64_t>& shape) {
  return Raw(Tensor::Zeros(DType::kF32, Shape(shape.begin(), shape.end())));
}

TEST_F(Refusals, NameWhatIsMissing) {
  Start("gpt2");
  tensors_.erase("transformer.h.1.ln_1.bias");
  Expect(
      "m.safetensors: expected the tensors of family gpt2, got none named transformer.h.1.ln_1.bias; set model.family");
  Start("gpt2");
  Expect("transformer.h.2.attn.c_attn.bias", {"model.layers=3"});
  Expect(" and 8 more", {"model.layers=3"});
  family_ = "llama";
  Expect("got none named model.embed_tokens.weight");
  Start("llama", {"model.tie_embeddings=true"});
  Expect("got none named lm_head.weight; set model.tie_embeddings=true");
}

TEST_F(Refusals, NameWhatIsTooMuch) {
  Start("gpt2");
  Expect("m.safetensors: expected only the tensors of the model, got also transformer.h.1.attn.c_attn.bias, ",
         {"model.layers=1"});
  tensors_["transformer.h.0.adapter"] = Zeros({2});
  Expect("got also transformer.h.0.adapter; set");
  Start("llama");
  tensors_["model.layers.0.self_attn.q_proj.bias"] = Zeros({24});
  Expect("got also model.layers.0.self_attn.q_proj.bias;");
}

TEST_F(Refusals, NameWrongShapesAndTypes) {
  Start("gpt2");
  Expect("tensor transformer.wpe.weight: expected [9, 24] for positions, got [7, 24]; set the sizes under model",
         {"model.context=9"});
  Expect("tensor transformer.wte.weight: expected [40, 24] for embed.weight, got [37, 24]", {"model.vocab=40"});
  Expect("tensor transformer.h.0.mlp.c_proj.weight: expected [36, 24] for blocks.0.mlp.down.weight, got [35, 24]",
         {"model.ffn=36"});
  tensors_["transformer.h.1.attn.c_attn.weight"] = Zeros({72, 24});
  Expect("tensor transformer.h.1.attn.c_attn.weight: expected [24, 72] for blocks.1.attn.k.weight, got [72, 24]");
  Start("gpt2");
  tensors_["transformer.ln_f.bias"] = {"I32", {24}, std::string(96, '\0')};
  Expect("tensor transformer.ln_f.bias: expected F64, F32, BF16 or F16, got I32; convert it");
  Start("llama");
  Expect("tensor model.layers.0.self_attn.k_proj.weight: expected [8, 24] for blocks.0.attn.k.weight, got [24, 24]",
         {"model.kv_heads=2"});
}

TEST_F(Refusals, LetHarmlessTensorsPass) {
  Start("gpt2");
  tensors_["transformer.h.0.attn.bias"] = Zeros({1, 1, 7, 7});
  tensors_["transformer.h.1.attn.masked_bias"] = Zeros({});
  tensors_["lm_head.weight"] = tensors_["transformer.wte.weight"];
  Expect("ok: weights of " + folder_.Path("m.safetensors") +
         "; passed over, as no logit depends on them: lm_head.weight, transformer.h.0.attn.bias, "
         "transformer.h.1.attn.masked_bias");
  tensors_["lm_head.weight"].data[5] ^= 1;
  Expect(
      "tensor lm_head.weight: expected the token embedding once more, as model.tie_embeddings is true, got other "
      "values; set model.tie_embeddings=false");
  Expect("ok", {"model.tie_embeddings=false"});
  Start("llama");
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = Zeros({2});
  Expect("ok");
}

TEST_F(Refusals, LetTheHubsNamesPass) {
  Config config = ConfigOf("gpt2", {});
  family_ = "gpt2";
  tensors_ = HfGpt2(RandomParameters(config), 2, 24, DType::kF32, "");
  Expect("ok");
  tensors_["h.0.attn.bias"] = Zeros({1, 1, 7, 7});
  Expect("ok");
  tensors_.erase("h.0.ln_2.bias");
  Expect("got none named transformer.h.0.ln_2.bias;");
}

// BERT as it was first published: with old names of norms, a pooler and the second training task. The bias of the head
// may be there twice.
TEST_F(Refusals, LetOldNamesAndOtherHeadsPass) {
  Start("bert");
  for (const char* part : {"weight", "bias"}) {
    auto old = tensors_.extract(fmt::format("bert.embeddings.LayerNorm.{}", part));
    old.key() = fmt::format("bert.embeddings.LayerNorm.{}", part == std::string("weight") ? "gamma" : "beta");
    tensors_.insert(std::move(old));
  }
  tensors_["bert.pooler.dense.weight"] = Zeros({24, 24});
  tensors_["cls.seq_relationship.bias"] = Zeros({2});
  Expect("ok: weights of " + folder_.Path("m.safetensors") +
         "; passed over, as no logit depends on them: bert.pooler.dense.weight, cls.predictions.decoder.bias, "
         "cls.seq_relationship.bias");
  tensors_["cls.predictions.decoder.bias"].data[2] ^= 1;
  Expect("got also cls.predictions.decoder.bias; set");
  tensors_.erase("cls.predictions.decoder.bias");
  Expect("ok");
  Expect("model.transform: expected 1, as transformers' models of family bert have it, got 0",
         {"model.transform=false"});
}

// GPT-2 has no fewer key and value heads than query heads: a model with fewer is there with each repeated, and only so.
TEST_F(Refusals, NameHeadsOfAGroupThatDiffer) {
  const Words grouped = {"model.kv_heads=2"};
  Start("gpt2", grouped);
  Expect("ok", grouped);
  Expect("ok", {"model.kv_heads=6"});
  Expect("tensor transformer.h.0.attn.c_attn.bias: expected the 6 heads of a group to be equal in blocks.0.attn.k.bias",
         {"model.kv_heads=1"});
  RawTensor& weight = tensors_["transformer.h.1.attn.c_attn.weight"];
  weight.data[size_t(4 * (24 + 4 + 1))] ^= 1;  // k of head 1, dim 1
  Expect(
      "tensor transformer.h.1.attn.c_attn.weight: expected the 3 heads of a group to be equal in "
      "blocks.1.attn.k.weight, as model.kv_heads is less than model.heads, got heads that differ; set "
      "model.kv_heads to model.heads",
      grouped);
  Expect("ok", {"model.kv_heads=6"});
}

// What shapes cannot show, such as the number of heads, is compared with the config.json in the folder of the weights.
TEST_F(Refusals, CompareTheModelsOwnConfig) {
  Start("gpt2");
  auto with = [&](const std::string& json) { folder_.Write("config.json", json); };
  with(R"({"model_type": "gpt2", "n_head": 6, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new"})");
  Expect("ok");
  with(R"({"n_head": 12, "tie_word_embeddings": true})");
  Expect("config.json: expected n_head 6, as model.heads is, got 12; set model.heads=12");
  with(R"({"n_head": 6, "layer_norm_epsilon": "x"})");
  Expect("config.json: expected layer_norm_epsilon 1e-05, as model.norm_eps is, got \"x\"");
  with(R"({"activation_function": "relu"})");
  Expect(
      "config.json: expected activation_function gelu_new or gelu_pytorch_tanh, as family gpt2 has it, got \"relu\"");
  with("{");
  Expect("config.json: expected a JSON object, got something else");
  with(R"({"n_head": 6, "scale_attn_by_inverse_layer_idx": true})");
  Expect("config.json: scale_attn_by_inverse_layer_idx: expected false: Weft does not divide scores");
  with(R"({"n_head": 6, "tie_word_embeddings": false})");
  Expect("expected tie_word_embeddings true, as model.tie_embeddings is, got false; set model.tie_embeddings=false");
  tensors_["lm_head.weight"] = tensors_["transformer.wte.weight"];  // tied or not, the same numbers
  Expect("ok");
  Start("llama");
  with(R"({"model_type": "gemma"})");
  Expect("config.json: expected model_type llama, as family llama has it, got \"gemma\"; Weft has no such model");
  const std::string heads = R"("num_attention_heads": 6, "rms_norm_eps": 1e-5)";
  with("{" + heads + R"(, "num_key_value_heads": 2})");
  Expect("expected num_key_value_heads 6, as model.kv_heads is, got 2");
  with("{" + heads + R"(, "rope_theta": 500000.0, "rope_scaling": null})");
  Expect("expected rope_theta 10000, as model.rope_theta is, got 500000.0; set model.rope_theta=500000.0");
  Expect("ok", {"model.rope_theta=5e5"});
  with("{" + heads + R"(, "rope_scaling": {"rope_type": "yarn", "factor": 32.0}})");
  Expect("config.json: expected rope_scaling.rope_type default or llama3, which Weft has, got \"yarn\"");
  with("{" + heads + R"(, "qk_norm": true})");
  Expect("config.json: expected keys that Weft knows of family llama, got also qk_norm = true");
  Expect("ok", {"model.init_neutral=qk_norm"});
}

// Without a config.json the shapes are all that can be compared, and the run says so.
TEST_F(Refusals, SayThatThereIsNoConfig) {
  Start("gpt2");
  Expect("; no config.json with them: heads, norms and positions are as this run has them");
  folder_.Write("config.json", R"({"n_head": 6})");
  EXPECT_EQ(Answer().find("config.json"), std::string::npos);
}

}  // namespace
}  // namespace weft
