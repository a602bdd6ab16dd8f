// MFU: the peaks of products by name, and the FLOPs that a token of a known model counts for.
#include "weft/train/log/mfu.h"

#include <gtest/gtest.h>

#include "weft/train/config/config_presets.h"
#include "weft/train/config/model_of.h"

namespace weft {
namespace {

TransformerConfig Sizes(const std::string& model) {
  std::string yaml = "model: " + model + "\ndata: {synthetic: true}\ntrain: {steps: 1, global_batch: 1}\n";
  Config config = ParseConfig(yaml, "x.yaml", {}).value();
  WEFT_CHECK(Resolve(config, 1).ok() && ResolveVocab(config, config.model.vocab).ok(), "a model");
  return ModelOf(config);
}

TEST(PeakFlops, IsKnownByTheNameOfTheProduct) {
  for (const char* name : {"NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB"})
    EXPECT_EQ(PeakFlops(name), 989.5e12) << name;
  for (const char* name : {"NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"})
    EXPECT_EQ(PeakFlops(name), 312e12) << name;
  EXPECT_EQ(PeakFlops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(PeakFlops("NVIDIA H200 NVL"), 835.5e12);
  for (const char* name : {"CPU", "", "Tesla V100-SXM2-16GB", "NVIDIA A10", "NVIDIA RTX A1000", "NVIDIA GB200",
                           "NVIDIA H100 80GB HBM3 MIG 1g.10gb"})
    EXPECT_FALSE(PeakFlops(name)) << name;
}

// Counted by hand. GPT-2's head is its token embedding, which counts; learned positions do not. An untied token
// embedding does not, its head does.
TEST(FlopsPerToken, CountsParametersThatTokensAreMultipliedWith) {
  int64_t blocks = 12 * 768 * (12 * 768 + 13), gpt2 = blocks + 50304 * 768 + 2 * 768;
  Transformer tied(Sizes("{preset: gpt2_124m, vocab: 50304}"));
  EXPECT_EQ(FlopsPerToken(tied, 1024), 6. * double(gpt2) + 12. * 12 * 768 * 1024);
  int64_t layer = 16 * 16 * 2 + 16 * 8 * 2 + 3 * 16 * 24 + 2 * 16, llama = 2 * layer + 40 * 16 + 16;
  std::string sizes = "{family: llama, layers: 2, heads: 4, kv_heads: 2, dim: 16, ffn: 24, vocab: 40, context: 8";
  for (const char* tie : {"false", "true"}) {
    Transformer model(Sizes(sizes + ", tie_embeddings: " + tie + "}"));
    EXPECT_EQ(FlopsPerToken(model, 8), 6. * double(llama) + 12. * 2 * 16 * 8) << tie;
  }
}

TEST(Mfu, IsOfAllRanksPeaksAndUnknownWhereTheyAre) {
  Transformer model(Sizes("{preset: gpt2_124m, vocab: 50304}"));
  EXPECT_NEAR(*Mfu(model, 1024, DType::kBF16, "NVIDIA H200", 1).At(567490), 0.490, 0.001);
  EXPECT_NEAR(*Mfu(model, 1024, DType::kBF16, "NVIDIA H200", 8).At(567490), 0.490 / 8, 0.001);
  EXPECT_FALSE(Mfu(model, 1024, DType::kF32, "NVIDIA H200", 1).At(567490));
  EXPECT_FALSE(Mfu(model, 1024, DType::kBF16, "CPU", 1).At(567490));
}

}  // namespace
}  // namespace weft
