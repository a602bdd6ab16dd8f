// Parameters under PyTorch's names: a file that one mesh wrote gives the same values to every other one, its tensors
// are those that PyTorch's modules have, and a file that does not fit is refused by name. torch_transformer_test checks
// where each parameter lies in them, with PyTorch's values.
#include "weft/train/huggingface/torch_state.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <mutex>

#include "dtensor/dtensor_testing.h"
#include "error_of.h"
#include "support/safetensors_testing.h"
#include "train/temp_folder.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/parallel/step/init.h"
#include "weft/train/checkpoint/safetensors.h"

namespace weft {
namespace {

using namespace testing_;

// A user's model with an nn::Transformer, attention with other widths, and layers of its own.
struct Model : Module {
  nn::Transformer transformer{this, "transformer", {.d_model = 6, .nhead = 3, .dim_feedforward = 10}, 1, 2};
  nn::MultiHeadAttention wide{this, "wide", {.embed_dim = 6, .num_heads = 2, .kdim = 4, .vdim = 5}};
  nn::MultiHeadAttention bare{this, "bare", {.embed_dim = 6, .num_heads = 2, .bias = false}};
  nn::Embedding embed{this, "embed", 7, 6, 0.1};
  nn::Linear dense{this, "dense", "btc,cd->btd", {6, 5}, {5}, {ParameterInit::kNormal, 0.1}};
  nn::Linear last{this, "last", "btc,cd->btd", {6, 5}, {}, {ParameterInit::kNormal, 0.1}, nn::Linear::kOfHead};
  nn::Linear head{this, "head", "btc,vc->btv", {7, 6}, {}, {ParameterInit::kNormal, 0.1}, nn::Linear::kOfHead};
  using Module::Module;
};

struct Mesh {
  int dp, tp;
  Fsdp fsdp = Fsdp::kNone;
  DType params = DType::kF32;
};
void OnState(const Mesh& m, const std::function<void(State&, const Model&, int rank)>& body, uint64_t seed = 1) {
  weft::RunRanks(m.dp * m.tp, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, {{"dp", "tp"}, {m.dp, m.tp}});
    Model model;
    State state = Init(model, AdamW(1e-3), mesh,
                       {.plan = TransformerPlan({.heads = 3, .kv_heads = 3}, mesh.shape()),
                        .precision = {DType::kF32, m.params, DType::kF32},
                        .fsdp = m.fsdp,
                        .seed = seed});
    body(state, model, context.rank());
  });
}
TEST(TorchState, IsTheSameOnEveryMesh) {
  TempFolder folder;
  std::map<std::string, std::vector<double>> want;
  std::string bytes;
  for (Mesh m : {Mesh{1, 1}, Mesh{2, 1}, Mesh{2, 2, Fsdp::kFull}, Mesh{1, 3, Fsdp::kGradients}}) {
    std::string path = folder.Path(fmt::format("{}x{}.safetensors", m.dp, m.tp));
    OnState(m, [&](State& state, const Model& model, int rank) {
      SaveTorchState(state, model, path);
      for (const Parameter* p : model.Parameters()) {
        std::vector<double> value = state.Value(p->path()).FullTensor().ToDoubles();
        if (rank == 0 && m.dp * m.tp == 1) want[p->path()] = value;
      }
    });
    std::ifstream file(path, std::ios::binary);
    std::string now((std::istreambuf_iterator<char>(file)), {});
    if (bytes.empty()) bytes = now;
    EXPECT_EQ(now, bytes) << path;
  }
  for (Mesh m : {Mesh{1, 1}, Mesh{1, 2}, Mesh{2, 2, Fsdp::kFull}, Mesh{3, 1, Fsdp::kGradients}})
    OnState(
        m,
        [&](State& state, const Model& model, int rank) {
          LoadTorchState(state, model, folder.Path("1x1.safetensors"));
          for (const Parameter* p : model.Parameters()) {
            std::vector<double> value = state.Value(p->path()).FullTensor().ToDoubles();
            EXPECT_EQ(value, want.at(p->path())) << p->path() << " on rank " << rank;
            if (m.fsdp == Fsdp::kGradients) {  // the copies in the used type follow
              std::vector<double> copy = state.Value(CopyName(p->path())).FullTensor().ToDoubles();
              EXPECT_EQ(copy, value) << p->path();
            }
          }
        },
        /*seed=*/2);
}

TEST(TorchState, HasTheTensorsOfPyTorchsModules) {
  TempFolder folder;
  std::string path = folder.Path("a.safetensors");
  OnState({1, 1}, [&](State& state, const Model& model, int) { SaveTorchState(state, model, path, "model."); });
  absl::StatusOr<Safetensors> file = Safetensors::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::map<std::string, Shape> some{
      {"model.transformer.encoder.layers.0.self_attn.in_proj_weight", {18, 6}},
      {"model.transformer.encoder.layers.0.self_attn.in_proj_bias", {18}},
      {"model.transformer.encoder.layers.0.self_attn.out_proj.weight", {6, 6}},
      {"model.transformer.encoder.layers.0.self_attn.out_proj.bias", {6}},
      {"model.transformer.encoder.layers.0.linear1.weight", {10, 6}},
      {"model.transformer.encoder.layers.0.linear1.bias", {10}},
      {"model.transformer.encoder.layers.0.linear2.weight", {6, 10}},
      {"model.transformer.encoder.layers.0.norm2.bias", {6}},
      {"model.transformer.encoder.norm.weight", {6}},
      {"model.transformer.decoder.layers.1.multihead_attn.in_proj_weight", {18, 6}},
      {"model.transformer.decoder.layers.1.norm3.weight", {6}},
      {"model.transformer.decoder.norm.bias", {6}},
      {"model.wide.q_proj_weight", {6, 6}},
      {"model.wide.k_proj_weight", {6, 4}},
      {"model.wide.v_proj_weight", {6, 5}},
      {"model.wide.in_proj_bias", {18}},
      {"model.bare.in_proj_weight", {18, 6}},
      {"model.embed.weight", {7, 6}},
      {"model.dense.weight", {5, 6}},
      {"model.last.weight", {5, 6}},
      {"model.head.weight", {7, 6}},
  };
  for (const auto& [name, shape] : some) {
    ASSERT_TRUE(file->tensors().contains(name)) << name;
    EXPECT_EQ(file->tensors().at(name).shape, shape) << name;
  }
  // An encoder layer has 12, a decoder layer 18, and each stack a norm of 2; then 6, 2 and the layers of its own.
  EXPECT_EQ(file->tensors().size(), 12u + 2 * 18 + 4 + 6 + 2 + 5);
  EXPECT_FALSE(file->tensors().contains("model.bare.in_proj_bias"));
}

// A part of a model is read and written by itself, under the names of that part.
TEST(TorchState, IsOfAnyPart) {
  TempFolder folder;
  std::string path = folder.Path("part.safetensors");
  std::vector<double> want;
  OnState({1, 1}, [&](State& state, const Model& model, int) {
    SaveTorchState(state, model.transformer, path);
    want = state.Value("transformer.decoder.norm.weight").FullTensor().ToDoubles();
    std::vector<double> doubled = want;
    for (double& v : doubled) v *= 2;
    Tensor local = state.At("transformer.decoder.norm.weight").local;
    for (size_t i = 0; i < doubled.size(); i++) local.as<float>()[i] = float(doubled[i]);
    LoadTorchState(state, model.transformer, path);
    EXPECT_EQ(state.Value("transformer.decoder.norm.weight").FullTensor().ToDoubles(), want);
  });
}

TEST(TorchState, RefusesWhatDoesNotFit) {
  TempFolder folder;
  std::string path = folder.Path("a.safetensors");
  OnState({1, 1}, [&](State& state, const Model& model, int) {
    auto refusal = [&](const std::function<void()>& fn) {
      std::string error = test::ErrorOf(fn);
      size_t at = error.find(" at torch_state_test.cc:");
      EXPECT_NE(at, error.npos) << error;
      if (at != error.npos) error.erase(at, error.find(": ", at) - at);
      return error;
    };
    auto load = [&](const Module& module, const std::string& name, const std::string& prefix) {
      return refusal([&] { LoadTorchState(state, module, name, prefix); });
    };
    SaveTorchState(state, model.wide, path, "a.");
    EXPECT_EQ(
        refusal([&] { SaveTorchState(state, model.wide, path); }),
        "SaveTorchState: " + path + ": expected a file to be made, got one that is there; name another, or remove it");
    EXPECT_EQ(load(model.wide, path, "b."),
              "LoadTorchState: " + path +
                  ": expected the tensors of the module, got none named b.in_proj_bias, b.k_proj_weight, "
                  "b.out_proj.bias, b.out_proj.weight and 2 more; build the module with the sizes, the bias and the "
                  "norms that PyTorch's has, or give the prefix of its names");
    EXPECT_EQ(load(model.bare, path, "a."),
              "LoadTorchState: " + path +
                  ": expected the tensors of the module, got none named a.in_proj_weight, and got also "
                  "a.in_proj_bias, a.k_proj_weight, a.out_proj.bias, a.q_proj_weight and 1 more; build the module with "
                  "the sizes, the bias and the norms that PyTorch's has, or give the prefix of its names");
    RawTensors short_one{{"weight", Raw(test::Draw({5, 4}, 1, DType::kF32))},
                         {"bias", Raw(test::Draw({5}, 2, DType::kF32))}};
    std::string other = folder.Write("b.safetensors", Pack(short_one));
    EXPECT_EQ(load(model.dense, other, ""), "LoadTorchState: " + other +
                                                ": tensor weight: expected [5, 6] for dense.weight, got [5, 4]; build "
                                                "the module with PyTorch's sizes");
    EXPECT_NE(load(model.dense, folder.Path("none"), "").find(folder.Path("none")), std::string::npos);
  });
}

}  // namespace
}  // namespace weft
