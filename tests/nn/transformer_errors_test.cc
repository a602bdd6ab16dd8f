// Transformer layers refuse bad operands and sizes. Each message says what was expected, what was given, where, and
// what to do.
#include <gtest/gtest.h>

#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"

namespace weft {
namespace {

using test::ErrorOf;

// Calls attention of 8 features, 2 heads, kdim 6 and vdim 5 in a trace. Returns the error, with "@" for the line.
std::string Refusal(const Shape& query, const Shape& key, const Shape& value, const nn::AttentionMasks& masks) {
  ModelScope scope({.mesh = {{"dp"}, {1}}});
  nn::MultiHeadAttention attn(nullptr, "self_attn", {.embed_dim = 8, .num_heads = 2, .kdim = 6, .vdim = 5});
  std::string error = ErrorOf(
      [&] { attn(Leaf("q", DType::kF32, query), Leaf("k", DType::kF32, key), Leaf("v", DType::kF32, value), masks); });
  size_t at = error.find("transformer_errors_test.cc:");
  EXPECT_NE(at, error.npos) << error;
  if (at != error.npos) error.replace(at, error.find(": expected", at) - at, "@");
  return error;
}
std::string RefusalOf(const std::function<nn::AttentionMasks()>& masks) {
  std::string error;
  test::Trace([&] {
    error = Refusal({2, 3, 8}, {2, 4, 6}, {2, 4, 5}, masks());
    return test::Traced{};
  });
  return error;
}

TEST(TransformerErrors, SayWhichOperandDoesNotFit) {
  test::Trace([&] {
    const std::string expected =
        "MultiHeadAttention self_attn at @: expected a query [B, T, 8], a key [B, S, 6] and a value [B, S, 5], got ";
    const std::string advice = "; the widths are embed_dim, kdim and vdim, and the batch is the first dim";
    EXPECT_EQ(Refusal({2, 3, 7}, {2, 4, 6}, {2, 4, 5}, {}), expected + "[2, 3, 7], [2, 4, 6] and [2, 4, 5]" + advice);
    EXPECT_EQ(Refusal({2, 3, 8}, {2, 4, 8}, {2, 4, 5}, {}), expected + "[2, 3, 8], [2, 4, 8] and [2, 4, 5]" + advice);
    EXPECT_EQ(Refusal({2, 3, 8}, {2, 4, 6}, {2, 3, 5}, {}), expected + "[2, 3, 8], [2, 4, 6] and [2, 3, 5]" + advice);
    EXPECT_EQ(Refusal({2, 3, 8}, {1, 4, 6}, {1, 4, 5}, {}), expected + "[2, 3, 8], [1, 4, 6] and [1, 4, 5]" + advice);
    EXPECT_EQ(Refusal({3, 8}, {4, 6}, {4, 5}, {}), expected + "[3, 8], [4, 6] and [4, 5]" + advice);
    return test::Traced{};
  });
}

TEST(TransformerErrors, SayWhichMaskDoesNotFit) {
  EXPECT_EQ(RefusalOf([] {
              return nn::AttentionMasks{.attn_mask = IgnoreMask(Leaf("m", DType::kBool, {4, 3}))};
            }),
            "MultiHeadAttention self_attn at @: expected a boolean attn_mask of [3, 4] or [4, 3, 4], got bool [4, 3]");
  EXPECT_EQ(RefusalOf([] {
              return nn::AttentionMasks{.attn_mask = IgnoreMask(Leaf("m", DType::kF32, {3, 4}))};
            }),
            "MultiHeadAttention self_attn at @: expected a boolean attn_mask of [3, 4] or [4, 3, 4], got f32 [3, 4]; a "
            "float mask is attn_bias or key_padding_bias");
  EXPECT_EQ(
      RefusalOf([] {
        return nn::AttentionMasks{.attn_bias = Leaf("m", DType::kBool, {3, 4})};
      }),
      "MultiHeadAttention self_attn at @: expected a floating attn_bias of [3, 4] or [4, 3, 4], got bool [3, 4]; a "
      "boolean mask is attn_mask or key_padding_mask");
  EXPECT_EQ(
      RefusalOf([] {
        return nn::AttentionMasks{.attn_bias = Leaf("m", DType::kF32, {2, 3, 4})};
      }),
      "MultiHeadAttention self_attn at @: expected a floating attn_bias of [3, 4] or [4, 3, 4], got f32 [2, 3, 4]");
  EXPECT_EQ(RefusalOf([] {
              return nn::AttentionMasks{.key_padding_mask = IgnoreMask(Leaf("m", DType::kBool, {2, 3}))};
            }),
            "MultiHeadAttention self_attn at @: expected a boolean key_padding_mask of [2, 4], got bool [2, 3]");
  EXPECT_EQ(
      RefusalOf([] {
        return nn::AttentionMasks{.key_padding_bias = Leaf("m", DType::kI64, {2, 4})};
      }),
      "MultiHeadAttention self_attn at @: expected a floating key_padding_bias of [2, 4], got i64 [2, 4]; a boolean "
      "mask is attn_mask or key_padding_mask");
}

TEST(TransformerErrors, SayWhichSizeDoesNotFit) {
  EXPECT_EQ(ErrorOf([] { nn::MultiHeadAttention(nullptr, "attn", {.embed_dim = 10, .num_heads = 4}); }),
            "MultiHeadAttention attn: expected num_heads > 0 that divides embed_dim, got embed_dim 10 and num_heads 4; "
            "choose another number of heads");
  EXPECT_EQ(ErrorOf([] { nn::MultiHeadAttention(nullptr, "attn", {.embed_dim = 8, .num_heads = 2, .kdim = -1}); }),
            "MultiHeadAttention attn: expected kdim and vdim >= 0, got -1 and 0; 0 stands for embed_dim");
  EXPECT_EQ(
      ErrorOf([] { nn::Transformer(nullptr, "", {.d_model = 10, .nhead = 4}); }),
      "MultiHeadAttention encoder.layers.0.self_attn: expected num_heads > 0 that divides embed_dim, got embed_dim "
      "10 and num_heads 4; choose another number of heads");
  EXPECT_EQ(ErrorOf([] { nn::TransformerEncoder(nullptr, "encoder", {}, 0); }),
            "encoder: expected at least one layer, got 0");
  EXPECT_EQ(
      ErrorOf([] { nn::TransformerEncoderLayer(nullptr, "layer", {.d_model = 8, .nhead = 2, .dim_feedforward = 0}); }),
      "layer: expected dim_feedforward > 0, got 0");
}

}  // namespace
}  // namespace weft
