// Packed rows: an encoder on them has the values and gradients that it has on the padded batch, and computes no
// padding.
#include "weft/parallel/nn/layers/packing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "error_of.h"
#include "parallel/testing.h"
#include "share.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"

namespace weft {
namespace {

using test::ErrorOf;
using test::Traced;
using test::Values;
using testing::HasSubstr;

using Lengths = std::vector<int64_t>;
const MeshShape kOne{{"x"}, {1}};

// Lengths from 0 to `tokens`. With two sequences or more, one has length 0 and one is full.
Lengths RandomLengths(int64_t batch, int64_t tokens, uint64_t seed) {
  Lengths lengths;
  for (double v : test::Draw({batch}, seed).ToDoubles()) lengths.push_back(int64_t(std::abs(v) * 1e6) % (tokens + 1));
  if (batch > 1) lengths[seed % size_t(batch)] = 0, lengths[(seed + 1) % size_t(batch)] = tokens;
  return lengths;
}
Tensor PaddingOf(const Lengths& lengths, int64_t tokens) {
  std::vector<double> padding;
  for (int64_t length : lengths)
    for (int64_t t = 0; t < tokens; t++) padding.push_back(t >= length);
  return Tensor::FromDoubles(padding, DType::kBool, {int64_t(lengths.size()), tokens});
}

// ---- On the host. ----

TEST(PackedPlaces, HoldEachRealTokenOnce) {
  size_t sizes = 0;
  for (int64_t batch : {1, 2, 6, 12})
    for (int64_t tokens : {1, 7, 64})
      for (int64_t groups : {1, 2, 3, 6}) {
        if (batch % groups) continue;
        for (uint64_t seed = 0; seed < 20; seed++, sizes++) {
          Lengths lengths = RandomLengths(batch, tokens, seed);
          Tensor places = nn::PackedPlaces(lengths, tokens, {.groups = groups});
          ASSERT_EQ(places.dtype(), DType::kI32);
          ASSERT_EQ(places.shape(), (Shape{groups, nn::PackedSlots(lengths, tokens, groups)}));
          EXPECT_LE(places.shape()[1], batch / groups * tokens) << "no more slots than tokens";
          std::vector<double> got = places.ToDoubles(), want;
          std::erase(got, -1);
          for (int64_t b = 0; b < batch; b++)
            for (int64_t t = 0; t < lengths[size_t(b)]; t++) want.push_back(double(b % (batch / groups) * tokens + t));
          EXPECT_EQ(got, want);
          EXPECT_EQ(nn::PackedPlaces(PaddingOf(lengths, tokens), {.groups = groups}).ToDoubles(), places.ToDoubles());
        }
      }
  EXPECT_GT(sizes, 500u);
}

// All numbers of real tokens of a batch take at most 32 sizes, each of which holds at most 1/32 of the batch too many.
TEST(PackedSlots, TakeFewSizes) {
  constexpr int64_t kBatch = 16, kTokens = 128, kAll = kBatch * kTokens;
  std::set<int64_t> sizes;
  for (int64_t real = 0; real <= kAll; real++) {
    Lengths lengths(size_t(kBatch), real / kBatch);
    for (int64_t b = 0; b < real % kBatch; b++) lengths[size_t(b)]++;
    int64_t slots = nn::PackedSlots(lengths, kTokens);
    sizes.insert(slots);
    EXPECT_GE(slots, real);
    EXPECT_LE(slots, std::max<int64_t>(real, 1) + kAll / 32);
  }
  EXPECT_LE(sizes.size(), 32u);
}

TEST(PackedPlaces, RefuseWhatDoesNotFit) {
  auto error = [](const Lengths& lengths, int64_t tokens, const nn::PackingOptions& options) {
    return ErrorOf([&] { nn::PackedPlaces(lengths, tokens, options); });
  };
  EXPECT_EQ(error({3, 5}, 4, {}), "packing: expected lengths from 0 to 4 tokens, got 5 for sequence 1");
  EXPECT_EQ(error({3, -1}, 4, {}), "packing: expected lengths from 0 to 4 tokens, got -1 for sequence 1");
  EXPECT_EQ(
      error({3, 4, 4}, 4, {.groups = 2}),
      "packing: expected groups that divide the sequences of a batch, got 2 groups of 3 sequences of 4 tokens; add "
      "sequences of length 0, or choose another number of groups");
  EXPECT_EQ(error({3, 4}, 4, {.slots = 6}),
            "packing: expected at least 7 slots, because a group has so many real tokens, got 6; take the largest "
            "PackedSlots of all ranks");
  EXPECT_EQ(ErrorOf([] {
              nn::PackedPlaces(Tensor::Zeros(DType::kI32, {2, 3}));
            }),
            "packing: expected padding of bool [B, T] on the host, got i32 [2, 3]");
}

// ---- Rows. ----

// Each token has a place in some row, or gets 0. Ints and bools are moved too, and a token knows its position.
TEST(Packing, UnpacksWhatItPacked) {
  for (int64_t groups : {1, 2, 4})
    for (uint64_t seed = 0; seed < 8; seed++) {
      constexpr int64_t kB = 4, kT = 6;
      Lengths lengths = RandomLengths(kB, kT, seed);
      Tensor places = nn::PackedPlaces(lengths, kT, {.groups = groups});
      Graph graph = test::Trace([&] {
        nn::Packing packing(Leaf("places", DType::kI32, places.shape()), kB, kT);
        Var real = Not(Leaf("padding", DType::kBool, {kB, kT}));
        Traced traced{{{"real", packing.Unpack(packing.Pack(real))},
                       {"positions", packing.Unpack(packing.Positions())},
                       {"segments", packing.segments()}}};
        for (int rank = 2; rank <= 4; rank++) {
          Shape shape{kB, kT, 3, 2};
          shape.resize(size_t(rank));
          Var x = Leaf(fmt::format("x{}", rank), DType::kF64, shape);
          traced.outputs.push_back({fmt::format("y{}", rank), packing.Unpack(packing.Pack(x))});
        }
        return traced;
      });
      Values leaves{{"places", places}, {"padding", PaddingOf(lengths, kT)}};
      for (const Shape& shape : {Shape{kB, kT}, Shape{kB, kT, 3}, Shape{kB, kT, 3, 2}})
        leaves[fmt::format("x{}", shape.size())] = test::Draw(shape, seed);
      Values got = test::RunOneRank(graph, kOne, leaves);
      std::vector<double> real = got.at("real").ToDoubles(), positions = got.at("positions").ToDoubles();
      std::map<double, int64_t> of_segments;
      for (double s : got.at("segments").ToDoubles()) of_segments[s]++;
      for (int64_t b = 0; b < kB; b++) of_segments[double(b % (kB / groups))] -= lengths[size_t(b)];
      of_segments.erase(-1);
      for (const auto& [segment, left] : of_segments) EXPECT_EQ(left, 0) << segment;
      for (int64_t i = 0; i < kB * kT; i++) {
        bool is_real = i % kT < lengths[size_t(i / kT)];
        EXPECT_EQ(real[size_t(i)], is_real);
        EXPECT_EQ(positions[size_t(i)], is_real ? double(i % kT) : 0);
        for (int rank = 2; rank <= 4; rank++) {
          std::vector<double> x = leaves.at(fmt::format("x{}", rank)).ToDoubles();
          std::vector<double> y = got.at(fmt::format("y{}", rank)).ToDoubles();
          for (size_t k = 0, n = x.size() / size_t(kB * kT); k < n; k++)
            EXPECT_EQ(y[size_t(i) * n + k], is_real ? x[size_t(i) * n + k] : 0);
        }
      }
    }
}

// ---- The encoder. ----

struct Setting {
  int64_t batch = 4, tokens = 9, groups = 1;
  uint64_t seed = 0;
  nn::TransformerLayerOptions layer{.d_model = 8, .nhead = 2, .dim_feedforward = 12, .dropout = 0};
  bool final_norm = false, causal = false, sequence_parallel = false;
  DType dtype = DType::kF64;
  int64_t slots = 0;
  int64_t layers = 2;
};
std::string Describe(const Setting& s, const MeshShape& mesh) {
  return fmt::format("{} x {} in {} groups, {}-norm, {}, bias {}, final norm {}, causal {}, sp {}, {}, seed {}, on {}",
                     s.batch, s.tokens, s.groups, s.layer.norm_first ? "pre" : "post",
                     s.layer.activation == nn::Activation::kRelu ? "relu" : "gelu", s.layer.bias, s.final_norm,
                     s.causal, s.sequence_parallel, Name(s.dtype), s.seed, ToString(mesh));
}

// The encoder on the padded batch and on packed rows, in one program: outputs and gradients of a sum over real tokens
// have names that begin with "plain" and "packed".
struct Encoders {
  Graph graph;
  Values leaves;
};
Encoders Trace(const Setting& s, const MeshShape& mesh, bool plain = true, bool packed = true) {
  Encoders e;
  Lengths lengths = RandomLengths(s.batch, s.tokens, s.seed);
  Sharding batch = BatchPlacement(mesh);
  Shape shape{s.batch, s.tokens, s.layer.d_model};
  e.leaves = {{"x", test::Draw(shape, 3 * s.seed + 1, s.dtype)},
              {"w", test::Draw(shape, 3 * s.seed + 2, s.dtype)},
              {"padding", PaddingOf(lengths, s.tokens)},
              {"places", nn::PackedPlaces(lengths, s.tokens, {.groups = s.groups, .slots = s.slots})}};
  e.graph = test::Trace([&] {
    ModelScope scope({.mesh = mesh,
                      .plan = TransformerPlan({s.layer.nhead, s.layer.nhead, s.sequence_parallel}, mesh),
                      .precision = {s.dtype, s.dtype, s.dtype}});
    nn::TransformerEncoder encoder(nullptr, "encoder", s.layer, s.layers, s.final_norm);
    Var x = Leaf("x", s.dtype, shape, batch), w = Leaf("w", s.dtype, shape, batch);
    Var padding = Leaf("padding", DType::kBool, {s.batch, s.tokens}, batch);
    Var real = Broadcast(Cast(Not(padding), s.dtype), 2, s.layer.d_model);  // [B, T, C]
    std::vector<Var> of{x};
    for (const Parameter* p : encoder.Parameters()) {
      of.push_back(p->Source());
      e.leaves[p->path()] = test::Draw(p->shape(), 17 + of.size(), s.dtype);
    }
    Traced traced;
    auto add = [&](const std::string& name, const Var& y, const Var& loss) {
      traced.outputs.push_back({name + " y", y});
      std::vector<Var> d = Grad(loss, of);
      for (size_t i = 0; i < d.size(); i++) traced.outputs.push_back({fmt::format("{} d{}", name, i), d[i]});
    };
    if (plain) {
      Var y = encoder(x, {.key_padding_mask = IgnoreMask(padding), .is_causal = s.causal}) * real;  // [B, T, C]
      add("plain", y, SumAll(y * w));
    }
    if (packed) {
      const Shape& places = e.leaves.at("places").shape();
      nn::Packing packing(Leaf("places", DType::kI32, places, batch), s.batch, s.tokens);
      Var y = encoder(x, packing, {.is_causal = s.causal});  // [B, T, C]
      add("packed", y, SumAll(y * w));
    }
    return traced;
  });
  return e;
}

// Returns the largest difference relative to the largest value of each tensor, or 1.
double Difference(const Setting& s, const MeshShape& mesh) {
  Encoders e = Trace(s, mesh);
  Values got =
      mesh.num_ranks() == 1 ? test::RunOneRank(e.graph, mesh, e.leaves) : test::RunRanks(e.graph, mesh, e.leaves);
  double largest = 0;
  size_t compared = 0;
  for (const auto& [name, plain] : got) {
    if (!name.starts_with("plain")) continue;
    compared++;
    double scale = 1;
    for (double v : plain.ToDoubles()) scale = std::max(scale, std::abs(v));
    largest = std::max(largest, test::LargestDifference(plain, got.at("packed" + name.substr(5))) / scale);
  }
  EXPECT_GT(compared, 10u);
  std::vector<double> y = got.at("packed y").ToDoubles(), padding = e.leaves.at("padding").ToDoubles();
  for (size_t i = 0; i < y.size(); i++)
    EXPECT_TRUE(padding[i / size_t(s.layer.d_model)] == 0 || y[i] == 0) << "padding gets 0";
  return largest;
}

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  uint64_t seed = 0;
  for (bool norm_first : {false, true})
    for (nn::Activation activation : {nn::Activation::kRelu, nn::Activation::kExactGelu})
      for (bool causal : {false, true})
        for (int64_t groups : {1, 2, 4}) {
          Setting s{.groups = groups, .seed = seed++, .causal = causal};
          s.layer.norm_first = norm_first, s.layer.activation = activation;
          s.layer.bias = seed % 4 != 0, s.final_norm = seed % 3 == 0;
          settings.push_back(s);
        }
  // More slots than any group needs, one sequence, sequences of one token, and rows over several blocks of attention.
  settings.push_back({.seed = seed++, .slots = 50});
  settings.push_back({.batch = 1, .seed = seed++});
  settings.push_back({.batch = 6, .tokens = 1, .groups = 3, .seed = seed++});
  settings.push_back({.batch = 6, .tokens = 70, .groups = 2, .seed = seed++});
  return settings;
}

// The same f64 terms are added in another order at most: a few hundred terms in attention and in gradients.
TEST(PackedEncoder, IsThePlainOneOnRealTokens) {
  double largest = 0;
  std::vector<Setting> settings = test::ShareOf(Settings());
  for (const Setting& s : settings) {
    double difference = Difference(s, kOne);
    largest = std::max(largest, difference);
    EXPECT_LE(difference, 1e-12) << Describe(s, kOne);
  }
  fmt::print("shown: {} settings, values and gradients differ from the plain path's by at most {:.2e}\n",
             settings.size(), largest);
}

// Two layers round each value a few dozen times: an f32 by 2^-24, a bf16 by 2^-9. Norms of few features amplify that,
// and gradients of weights add up the roundings of all rows: 141 x 2^-24 was seen on a GPU.
TEST(PackedEncoder, IsThePlainOneToTheRoundingOfItsType) {
  for (auto [dtype, tolerance] : {std::pair{DType::kF32, 250 * 0x1p-24}, {DType::kBF16, 60 * 0x1p-9}})
    for (Setting s : test::ShareOf(Settings())) {
      s.dtype = dtype;
      EXPECT_LE(Difference(s, kOne), tolerance) << Describe(s, kOne);
    }
}

// With G a multiple of dp, with rows that some ranks lack (3 groups on 2 ranks), and with one row for all ranks.
TEST(PackedEncoder, IsThePlainOneOnEveryMesh) {
  size_t round = 0;
  for (const MeshShape& mesh : {MeshShape{{"dp", "tp"}, {2, 1}}, MeshShape{{"dp", "tp"}, {1, 2}},
                                MeshShape{{"dp", "tp"}, {2, 2}}, MeshShape{{"replicate", "dp", "tp"}, {2, 2, 1}}})
    for (bool sequence_parallel : {false, true})
      for (int64_t groups : {1, 2, 3, 4}) {
        if (test::Skips(round)) continue;
        Setting s{.batch = 12, .tokens = 5, .groups = groups, .seed = round, .sequence_parallel = sequence_parallel};
        s.layer.norm_first = round % 3 == 0;
        EXPECT_LE(Difference(s, mesh), 1e-12) << Describe(s, mesh);
      }
}

// ---- No work on padding, and none on the sequences of other ranks. ----

double FlopsOf(const Setting& s, bool packed) {
  double flops = 0;
  for (const auto& node : Trace(s, kOne, !packed, packed).graph.nodes)
    if (node->op == Op::kEinsum) flops += ProductFlops(*node);
  return flops;
}
TEST(PackedEncoder, MultipliesNoPadding) {
  for (bool norm_first : {false, true}) {
    Setting s{.batch = 8, .tokens = 64, .seed = 5};
    s.layer.norm_first = norm_first;
    Lengths lengths = RandomLengths(s.batch, s.tokens, s.seed);
    double share = double(nn::PackedSlots(lengths, s.tokens)) / double(s.batch * s.tokens);
    EXPECT_LT(share, 0.8);
    EXPECT_DOUBLE_EQ(FlopsOf(s, true), share * FlopsOf(s, false)) << "forward and backward";
  }
}

// If the ranks that share the batch divide the groups, packing moves nothing between ranks, forward or backward.
TEST(PackedEncoder, CommunicatesAsThePlainOne) {
  for (const MeshShape& mesh : {MeshShape{{"dp", "tp"}, {2, 1}}, MeshShape{{"dp", "tp"}, {2, 2}}})
    for (int64_t groups : {2, 4}) {
      Setting s{.groups = groups};
      auto collectives = [&](bool packed) {
        return test::Collectives(Partition(Trace(s, mesh, !packed, packed).graph, {.mesh = mesh, .natural = true}));
      };
      EXPECT_EQ(collectives(true), collectives(false)) << Describe(s, mesh);
    }
}

// Gradients of packing and unpacking are gathers too. A scatter_add would sort all elements on a GPU.
TEST(Packing, HasGradientsThatAddNothing) {
  for (const auto& node : Trace({}, kOne, false, true).graph.nodes) EXPECT_NE(node->op, Op::kScatterAdd);
}

// GatherInvertible has the values and the gradients of Gather, also of shards of any dim, and of the gradient itself.
TEST(GatherInvertible, HasTheGradientsOfGather) {
  const std::vector<double> ids{3, -1, 0, 5}, inverse{2, 4, -1, 0, 9, 3};  // some are outside
  for (int dim : {0, 1, 2})
    for (int sharded : {0, 1, 2}) {
      Shape full{2, 3, 4};
      full[size_t(dim)] = 6;
      auto along = [&](const std::string& name, int64_t size) {  // the ids, repeated along the other dims
        Var x = Leaf(name, DType::kI64, {size});
        for (int d = 0; d < 3; d++)
          if (d != dim) x = Broadcast(x, d, full[size_t(d)]);
        return x;
      };
      auto trace = [&](bool invertible) {
        return test::Trace([&] {
          Var x = Leaf("x", DType::kF64, full, {Shard(sharded)});
          Var y = invertible ? GatherInvertible(x, along("ids", 4), along("inverse", 6), dim)
                             : Gather(x, along("ids", 4), dim);
          Var d = Grad(SumAll(Sin(y) * y), {x})[0];
          return Traced{{{"y", y}, {"d", d}, {"dd", Grad(SumAll(d * d * d), {x})[0]}}};
        });
      };
      Values leaves{{"x", test::Draw(full, 9)},
                    {"ids", Tensor::FromDoubles(ids, DType::kI64, {4})},
                    {"inverse", Tensor::FromDoubles(inverse, DType::kI64, {6})}};
      Values want = test::RunOneRank(trace(false), kOne, leaves);
      for (const MeshShape& mesh : {kOne, MeshShape{{"x"}, {2}}, MeshShape{{"x"}, {3}}})
        for (const auto& [name, value] : test::RunRanks(trace(true), mesh, leaves))
          EXPECT_LE(test::LargestDifference(value, want.at(name)), 1e-12)
              << name << " of dim " << dim << " with shards of dim " << sharded << " on " << ToString(mesh);
    }
}

// ---- Errors. ----

TEST(PackingErrors, SayWhatDoesNotFit) {
  auto error = [](const std::function<void()>& body) {
    std::string message;
    test::Trace([&] {
      ModelScope scope({.mesh = kOne});
      message = ErrorOf(body);
      return Traced{};
    });
    EXPECT_THAT(message, HasSubstr(" at packing_test.cc:"));
    return message;
  };
  auto packing = [] { return nn::Packing(Leaf("places", DType::kI32, {2, 5}), 4, 3); };
  EXPECT_THAT(error([] {
                nn::Packing(Leaf("places", DType::kI32, {3, 5}), 4, 3);
              }),
              HasSubstr("expected places of i32 or i64 [G, N] with G that divides the 4 sequences of 3 tokens, got i32 "
                        "[3, 5]; PackedPlaces makes them"));
  EXPECT_THAT(error([] { nn::Packing(Leaf("places", DType::kF32, {2, 5}), 4, 3); }), HasSubstr("got f32 [2, 5]"));
  EXPECT_THAT(error([&] {
                packing().Pack(Leaf("x", DType::kF32, {4, 5, 8}));
              }),
              HasSubstr("expected a batch [4, 3, ...], got [4, 5, 8]"));
  EXPECT_THAT(error([&] {
                packing().Unpack(Leaf("x", DType::kF32, {2, 6, 8}));
              }),
              HasSubstr("expected rows [2, 5, ...], got [2, 6, 8]"));
  EXPECT_THAT(error([&] {
                nn::TransformerEncoder encoder(nullptr, "encoder", {.d_model = 8, .nhead = 2}, 1);
                encoder(Leaf("x", DType::kF32, {4, 3, 8}), packing(),
                        {.key_padding_mask = IgnoreMask(Leaf("padding", DType::kBool, {4, 3}))});
              }),
              HasSubstr("TransformerEncoder encoder at packing_test.cc:"));
  EXPECT_THAT(error([&] {
                nn::MultiHeadAttention attn(nullptr, "attn", {.embed_dim = 8, .num_heads = 2});
                Var x = Leaf("x", DType::kF32, {4, 3, 8});
                attn(x, x, x, {.query_segments = Leaf("s", DType::kI64, {4, 3})});
              }),
              HasSubstr("MultiHeadAttention attn at packing_test.cc:"));
}

}  // namespace
}  // namespace weft
