// nn::MultiHeadAttention, nn::Transformer and its parts have PyTorch's values and gradients, with parameters that lie
// as PyTorch has them: cases of tests/golden/.torch, made by tests/interop/torch_transformer.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "core/torch_golden.h"
#include "share.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/train/huggingface/torch_names.h"

namespace weft {
namespace {

using test::GoldenCase;
using test::Vars;

constexpr int64_t kWidth = 4, kHeads = 2, kHidden = 6;  // as in torch_transformer.py
const MeshShape kOne{{"x"}, {1}}, kDp2Tp2{{"dp", "tp"}, {2, 2}};

using Named = std::map<std::string, Var>;
Named NamedOperands(const GoldenCase& c, const Vars& in) {
  Named named;
  for (size_t i = 0; i < in.size(); i++) named[c.attrs.at("operands").at(i)] = in[i];
  return named;
}
Var Find(const Named& named, const std::string& name) {
  auto found = named.find(name);
  return found == named.end() ? Var() : found->second;
}

nn::AttentionMasks MasksOf(const GoldenCase& c, const Named& named, const std::string& of) {
  nn::AttentionMasks masks;
  if (Var mask = Find(named, of + ".attn_mask"); mask.defined()) masks.attn_mask = IgnoreMask(mask);
  if (Var mask = Find(named, of + ".key_padding_mask"); mask.defined()) masks.key_padding_mask = IgnoreMask(mask);
  masks.attn_bias = Find(named, of + ".attn_bias");
  masks.key_padding_bias = Find(named, of + ".key_padding_bias");
  for (const auto& causal : c.attrs.at("causal")) masks.is_causal |= causal == of;
  return masks;
}

nn::TransformerLayerOptions OptionsOf(const GoldenCase& c) {
  return {.d_model = kWidth,
          .nhead = kHeads,
          .dim_feedforward = kHidden,
          .dropout = c.attrs.at("eval") ? 0.1 : 0.0,
          .activation = c.attrs.at("activation") == "relu" ? nn::Activation::kRelu : nn::Activation::kExactGelu,
          .norm_first = c.attrs.at("norm_first"),
          .bias = c.attrs.at("bias")};
}

// The elements of a parameter, picked out of the tensor that holds it.
Var Picked(const Var& tensor, const HfPlace& place, const Shape& shape) {
  Var flat = tensor, index = Full(double(place.offset), DType::kI64, shape);
  for (size_t d = 0; d < shape.size(); d++)
    index = index + Scale(Iota(int(d), DType::kI64, shape), double(place.strides[d]));
  while (flat.rank() > 1) flat = Merge(flat, 0);
  while (index.rank() > 1) index = Merge(index, 0);
  Var picked = Gather(flat, index, 0);
  for (size_t d = shape.size(); d-- > 1;) picked = Split(picked, 0, shape[d]);
  return picked;
}
// Gives the module's parameters their values, placed as the plan says.
void SetParameters(const Module& module, const Named& named) {
  ModelScope& scope = ModelScope::Current();
  std::set<std::string> used;
  for (const Parameter* p : module.Parameters()) {
    HfPlace place = PlaceInTorch(module, *p);
    const Var& tensor = named.at(place.tensor);
    WEFT_CHECK(tensor.shape() == place.shape, place.tensor + " has the shape " + ToString(tensor.shape()));
    used.insert(place.tensor);
    scope.SetWritten(p->path(), Reshard(Picked(tensor, place, p->shape()), scope.Stored(*p)));
  }
  for (const auto& [name, value] : named) {
    bool mask = name.ends_with(".attn_bias") || name.ends_with(".key_padding_bias");
    bool parameter = !mask && (name.ends_with("weight") || name.ends_with("bias"));
    EXPECT_EQ(used.contains(name), parameter) << name;
  }
}

Vars Attention(const GoldenCase& c, const Named& in) {
  nn::MultiHeadAttention attn(nullptr, "",
                              {.embed_dim = kWidth,
                               .num_heads = kHeads,
                               .dropout = c.attrs.at("eval") ? 0.1 : 0.0,
                               .bias = c.attrs.at("bias"),
                               .kdim = c.Int("kdim"),
                               .vdim = c.Int("vdim")});
  SetParameters(attn, in);
  Var query = in.at("query"), key = Find(in, "key"), value = Find(in, "value");
  return {attn(query, key.defined() ? key : query, value.defined() ? value : query, MasksOf(c, in, "src"))};
}
Vars EncoderLayer(const GoldenCase& c, const Named& in) {
  nn::TransformerEncoderLayer layer(nullptr, "", OptionsOf(c));
  SetParameters(layer, in);
  return {layer(in.at("src"), MasksOf(c, in, "src"))};
}
Vars DecoderLayer(const GoldenCase& c, const Named& in) {
  nn::TransformerDecoderLayer layer(nullptr, "", OptionsOf(c));
  SetParameters(layer, in);
  return {layer(in.at("tgt"), in.at("memory"), MasksOf(c, in, "tgt"), MasksOf(c, in, "memory"))};
}
Vars Encoder(const GoldenCase& c, const Named& in) {
  nn::TransformerEncoder encoder(nullptr, "", OptionsOf(c), c.Int("layers"), c.attrs.at("norm"));
  SetParameters(encoder, in);
  return {encoder(in.at("src"), MasksOf(c, in, "src"))};
}
Vars Decoder(const GoldenCase& c, const Named& in) {
  nn::TransformerDecoder decoder(nullptr, "", OptionsOf(c), c.Int("layers"), c.attrs.at("norm"));
  SetParameters(decoder, in);
  return {decoder(in.at("tgt"), in.at("memory"), MasksOf(c, in, "tgt"), MasksOf(c, in, "memory"))};
}
Vars Both(const GoldenCase& c, const Named& in) {
  nn::Transformer transformer(nullptr, "", OptionsOf(c), c.Int("layers"), c.Int("decoder_layers"));
  SetParameters(transformer, in);
  return {
      transformer(in.at("src"), in.at("tgt"),
                  {.src = MasksOf(c, in, "src"), .tgt = MasksOf(c, in, "tgt"), .memory = MasksOf(c, in, "memory")})};
}

const std::map<std::string, Vars (*)(const GoldenCase&, const Named&)> kLayers{{"attention", Attention},
                                                                               {"encoder_layer", EncoderLayer},
                                                                               {"decoder_layer", DecoderLayer},
                                                                               {"encoder", Encoder},
                                                                               {"decoder", Decoder},
                                                                               {"transformer", Both}};

// The layer of a case, built on the mesh with its plan.
test::GoldenFunction LayerOn(const MeshShape& mesh) {
  return [mesh](const GoldenCase& c, const Vars& in) {
    DType dtype = in[0].dtype();
    ModelScope scope({.mesh = mesh,
                      .plan = TransformerPlan({.heads = kHeads, .kv_heads = kHeads}, mesh),
                      .precision = {dtype, dtype, dtype}});
    Vars placed = in;  // a tensor-parallel layer takes whole rows of the batch, as ranks of a run have them
    placed[0] = Reshard(in[0], BatchPlacement(mesh));
    return kLayers.at(c.op)(c, NamedOperands(c, placed));
  };
}

using Replay = void (*)(const GoldenCase&, const test::GoldenFunction&);
const std::vector<GoldenCase>& Cases() {
  static const std::vector<GoldenCase> cases = test::ReadGolden("transformer.jsonl");
  return cases;
}
void ReplayAll(Replay replay, const MeshShape& mesh) {
  size_t ran = 0;
  test::GoldenFunction layer = LayerOn(mesh);
  for (size_t i = 0; i < Cases().size(); i += size_t(test::Share()), ran++) {
    const GoldenCase& c = Cases()[i];
    SCOPED_TRACE(testing::Message() << "line " << c.line << ": " << c.op << " " << c.attrs.dump());
    try {
      replay(c, layer);
    } catch (const std::exception& error) {
      FAIL() << error.what();  // with the case; what threw says nothing of it
    }
  }
  fmt::print("shown: {} cases of PyTorch's\n", ran);
}

TEST(TorchTransformer, CoversEachLayer) {
  std::map<std::string, int> seen;
  for (const GoldenCase& c : Cases()) seen[c.op]++;
  EXPECT_EQ(seen.size(), kLayers.size());
  EXPECT_GE(Cases().size(), 500u);
}
TEST(TorchTransformer, Eager) { ReplayAll(test::ExpectEager, kOne); }
TEST(TorchTransformer, Traced) { ReplayAll(test::ExpectTraced, kOne); }
TEST(TorchTransformer, OnTwoByTwoRanks) { ReplayAll(test::ExpectOnMesh, kDp2Tp2); }

}  // namespace
}  // namespace weft
