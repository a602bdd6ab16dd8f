// nn::Transformer and its layers: on every mesh the values and gradients of one rank, masks that agree with each other,
// no scores in memory, and types of masks that do not mix.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <concepts>

#include "dtensor/dtensor_testing.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/parallel/nn/model.h"
#include "weft/parallel/program/compile.h"
#include "weft/parallel/step/init.h"

namespace weft {
namespace {

using test::Draw;
using test::LargestDifference;

// A mask of one meaning is not taken for one of the other: each of these would be a silent mistake.
template <class From, class To>
concept TakenFor =
    std::convertible_to<From, To> || std::constructible_from<To, From> || std::assignable_from<To&, From>;
static_assert(!TakenFor<IgnoreMask, AttendMask> && !TakenFor<AttendMask, IgnoreMask>);
static_assert(!std::convertible_to<Var, IgnoreMask> && !std::convertible_to<Var, AttendMask>);
static_assert(!std::convertible_to<IgnoreMask, Var> && !std::convertible_to<AttendMask, Var>);
template <class Mask>
concept IsAttnMask = requires(nn::AttentionMasks masks, Mask mask) {
  masks.attn_mask = mask;
};
template <class Mask>
concept IsSdpaMask = requires(SdpaOptions options, Mask mask) {
  options.mask = mask;
};
static_assert(IsAttnMask<IgnoreMask> && !IsAttnMask<AttendMask> && !IsAttnMask<Var>);
static_assert(IsSdpaMask<AttendMask> && !IsSdpaMask<IgnoreMask> && !IsSdpaMask<Var>);

constexpr int64_t kBatch = 3, kSources = 5, kTargets = 4, kWidth = 12, kHidden = 10;

// ---- On every mesh. ----

struct Setting {
  bool norm_first = false;
  int64_t heads = 4;
  bool bias = true, masked = true;
  double dropout = 0;
  nn::Activation activation = nn::Activation::kExactGelu;
  int64_t layers = 2;
};
struct Mesh {
  int dp = 1, tp = 1;
  bool sequence_parallel = false;
  Fsdp fsdp = Fsdp::kNone;
  ExecutorKind executor = ExecutorKind::kCompiled;
};
std::string Describe(const Setting& s, const Mesh& m) {
  return fmt::format("{}-norm, {} heads, bias {}, masks {}, dropout {} on {} x {}{}, fsdp {}",
                     s.norm_first ? "pre" : "post", s.heads, s.bias, s.masked, s.dropout, m.dp, m.tp,
                     m.sequence_parallel ? " sp" : "", int(m.fsdp));
}

Tensor Bools(const Shape& shape, uint64_t seed) {
  std::vector<double> values = Draw(shape, seed).ToDoubles();
  for (size_t i = 0; i < values.size(); i++) values[i] = i % size_t(shape.back()) != 0 && values[i] > 0.2;
  return Tensor::FromDoubles(values, DType::kBool, shape);
}

// Everything by name: the outputs, the loss, and the gradients of parameters, inputs and the float mask.
using Results = std::map<std::string, Tensor>;

nn::TransformerLayerOptions OptionsOf(const Setting& s) {
  return {.d_model = kWidth,
          .nhead = s.heads,
          .dim_feedforward = kHidden,
          .dropout = s.dropout,
          .activation = s.activation,
          .norm_first = s.norm_first,
          .bias = s.bias};
}

nn::TransformerMasks MasksOf(const Setting& s, const Var& src_padding, const Var& tgt_padding, const Var& src_bias,
                             const Var& memory_mask) {
  nn::TransformerMasks masks;
  masks.tgt.is_causal = true;
  if (!s.masked) return masks;
  masks.src = {.attn_bias = src_bias, .key_padding_mask = IgnoreMask(src_padding)};
  masks.tgt.key_padding_mask = IgnoreMask(tgt_padding);
  masks.memory = {.attn_mask = IgnoreMask(memory_mask), .key_padding_mask = IgnoreMask(src_padding)};
  return masks;
}

Results RunOn(const Setting& s, const Mesh& m) {
  Results results;
  weft::RunRanks(m.dp * m.tp, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, {{"dp", "tp"}, {m.dp, m.tp}});
    nn::Transformer model(nullptr, "", OptionsOf(s), s.layers, s.layers);
    State state = Init(model, AdamW(1e-3), mesh,
                       {.plan = TransformerPlan({s.heads, s.heads, m.sequence_parallel}, mesh.shape()),
                        .precision = {DType::kF64, DType::kF64, DType::kF64},
                        .fsdp = m.fsdp,
                        .seed = 11});
    EagerScope eager(state.session(), Loc::current());
    Placements batch{Shard(0), Replicate()};
    auto place = [&](const Tensor& x) { return DistributeTensor(x, mesh, batch); };
    auto fn = Compile(
        [&](Var src, Var tgt, Var src_padding, Var tgt_padding, Var src_bias, Var memory_mask, Var weights) {
          Var y = model(src, tgt, MasksOf(s, src_padding, tgt_padding, src_bias, memory_mask));  // [B, T, C]
          Var loss = SumAll(y * weights);
          std::vector<Var> out{y, loss}, of{src, tgt};
          if (s.masked) of.push_back(src_bias);
          for (const Parameter* p : model.Parameters()) of.push_back(p->Source());
          for (const Var& d : Grad(loss, of)) out.push_back(d);
          return out;
        },
        state, {.executor = m.executor});
    Placements whole{Replicate(), Replicate()};
    std::vector<DTensor> all =
        fn(place(Draw({kBatch, kSources, kWidth}, 1)), place(Draw({kBatch, kTargets, kWidth}, 2)),
           place(Bools({kBatch, kSources}, 3)), place(Bools({kBatch, kTargets}, 4)),
           DistributeTensor(Draw({kSources, kSources}, 5), mesh, whole),
           DistributeTensor(Bools({kTargets, kSources}, 6), mesh, whole), place(Draw({kBatch, kTargets, kWidth}, 7)));
    std::vector<std::string> names{"y", "loss", "d src", "d tgt"};
    if (s.masked) names.push_back("d attn_bias");
    for (const Parameter* p : model.Parameters()) names.push_back("d " + p->path());
    ASSERT_EQ(names.size(), all.size());
    for (size_t i = 0; i < all.size(); i++) {
      Tensor value = all[i].FullTensor();
      if (context.rank() == 0) results[names[i]] = value.Clone();
    }
  });
  return results;
}

void ExpectSame(const Setting& s, const Results& one, const Mesh& mesh, double& largest) {
  Results many = RunOn(s, mesh);
  ASSERT_EQ(many.size(), one.size());
  for (const auto& [name, value] : one) {
    double scale = 1;
    for (double v : value.ToDoubles()) scale = std::max(scale, std::abs(v));
    double difference = LargestDifference(many.at(name), value) / scale;
    largest = std::max(largest, difference);
    EXPECT_LE(difference, 1e-9) << name << ": "
                                << Describe(s, mesh);  // f64 sums of a few hundred terms in other orders
  }
}

// 3 heads, the batch of 3 and the sequences of 5 and 4 are not divided by all meshes, so that chunks have padding.
TEST(Transformer, OnEveryMeshIsThatOfOneRank) {
  std::vector<Setting> settings;
  for (bool norm_first : {false, true})
    for (bool masked : {false, true})
      for (double dropout : {0.0, 0.3})
        settings.push_back({.norm_first = norm_first, .masked = masked, .dropout = dropout});
  settings.push_back({.norm_first = true, .heads = 3, .bias = false});
  settings.push_back({.heads = 3, .activation = nn::Activation::kRelu, .layers = 1});
  double largest = 0;
  for (const Setting& s : settings) {
    Results one = RunOn(s, {});
    for (Mesh mesh : {Mesh{2, 1}, Mesh{1, 2}, Mesh{2, 2}, Mesh{2, 2, true}, Mesh{1, 3, true},
                      Mesh{2, 2, false, Fsdp::kFull}, Mesh{2, 1, false, Fsdp::kGradients}})
      ExpectSame(s, one, mesh, largest);
    for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret})
      ExpectSame(s, one, {2, 2, false, Fsdp::kNone, executor}, largest);
  }
  fmt::print("shown: {} settings, values and gradients differ from one rank's by at most {:.2e}\n", settings.size(),
             largest);
}

// ---- Masks. ----

struct Attended {
  Tensor y, d_query, d_key;
};
// Runs attention op by op on one rank. `masks` are made in the scope.
Attended Attend(const std::function<nn::AttentionMasks()>& masks) {
  Attended result;
  test::OnBareMesh({1}, [&](test::Rank rank) {
    nn::MultiHeadAttention attn(nullptr, "", {.embed_dim = kWidth, .num_heads = 3});
    State state = Init(attn, AdamW(1e-3), rank.mesh, {.precision = {DType::kF64, DType::kF64, DType::kF64}, .seed = 3});
    StateScope scope(state);
    auto leaf = [&](const Shape& shape, uint64_t seed) {
      return Randn(shape, rank.mesh, {Replicate()}, {.dtype = DType::kF64, .requires_grad = true, .seed = seed});
    };
    DTensor query = leaf({kBatch, kTargets, kWidth}, 1), key = leaf({kBatch, kSources, kWidth}, 2);
    Var y = attn(query, key, key, masks());
    std::vector<Var> d = Grad(SumAll(y * Sin(y)), {query, key});
    result = {DTensor::Of(y).FullTensor(), DTensor::Of(d[0]).FullTensor(), DTensor::Of(d[1]).FullTensor()};
  });
  return result;
}
void ExpectSame(const Attended& a, const Attended& b) {
  EXPECT_LE(LargestDifference(a.y, b.y), 1e-12);
  EXPECT_LE(LargestDifference(a.d_query, b.d_query), 1e-12);
  EXPECT_LE(LargestDifference(a.d_key, b.d_key), 1e-12);
}

// Key j of a query i with j > i; [T, S] and [B H, T, S].
Var Later() {
  Shape scores{kTargets, kSources};
  return Iota(1, DType::kI64, scores) > Iota(0, DType::kI64, scores);
}
Var ForEachHead(const Var& mask) { return Merge(Broadcast(Broadcast(mask, 0, 3), 0, kBatch), 0); }
Var Padding() {  // the last two keys of all sequences but the last
  Shape keys{kBatch, kSources};
  return And(Iota(1, DType::kI64, keys) > Full(kSources - 3, DType::kI64, keys),
             Iota(0, DType::kI64, keys) < Full(kBatch - 1, DType::kI64, keys));
}
Var MinusInfinity(const Var& ignored) {
  return Select(ignored, Full(-std::numeric_limits<double>::infinity(), DType::kF64, ignored.shape()),
                Full(0, DType::kF64, ignored.shape()));
}

TEST(AttentionMasks, OfEachKindSayTheSame) {
  Attended causal = Attend([] { return nn::AttentionMasks{.is_causal = true}; });
  ExpectSame(causal, Attend([] { return nn::AttentionMasks{.attn_mask = IgnoreMask(Later())}; }));
  ExpectSame(causal, Attend([] { return nn::AttentionMasks{.attn_mask = IgnoreMask(ForEachHead(Later()))}; }));
  ExpectSame(causal, Attend([] { return nn::AttentionMasks{.attn_bias = MinusInfinity(Later())}; }));
  ExpectSame(causal, Attend([] { return nn::AttentionMasks{.attn_bias = MinusInfinity(ForEachHead(Later()))}; }));
  Attended padded = Attend([] { return nn::AttentionMasks{.key_padding_mask = IgnoreMask(Padding())}; });
  ExpectSame(padded, Attend([] { return nn::AttentionMasks{.key_padding_bias = MinusInfinity(Padding())}; }));
  Attended both =
      Attend([] { return nn::AttentionMasks{.key_padding_mask = IgnoreMask(Padding()), .is_causal = true}; });
  ExpectSame(both, Attend([] {
               return nn::AttentionMasks{.attn_mask = IgnoreMask(Later()), .key_padding_mask = IgnoreMask(Padding())};
             }));
  ExpectSame(both, Attend([] {
               return nn::AttentionMasks{.attn_bias = MinusInfinity(Later()),
                                         .key_padding_bias = MinusInfinity(Padding())};
             }));
  EXPECT_GT(LargestDifference(causal.y, padded.y), 1e-3);
  EXPECT_GT(LargestDifference(causal.y, both.y), 1e-3);
}

// The bias of proj is 0 at first, so that the output is what attention gave.
TEST(AttentionMasks, ThatLeaveNoKeyGiveZeros) {
  for (bool padding : {false, true}) {
    Attended none = Attend([&] {
      Var all = Full(1, DType::kBool, padding ? Shape{kBatch, kSources} : Shape{kTargets, kSources});
      return padding ? nn::AttentionMasks{.key_padding_mask = IgnoreMask(all)}
                     : nn::AttentionMasks{.attn_mask = IgnoreMask(all)};
    });
    for (const Tensor& x : {none.y, none.d_query, none.d_key})
      for (double v : x.ToDoubles()) EXPECT_EQ(v, 0);
  }
}

// With B sequences and masks of each kind that takes no sum, no value of the traced program, forward or backward, has
// the elements of B sequences' scores.
TEST(AttentionMasks, TakeNoMemoryOfScores) {
  constexpr int64_t kB = 16, kT = 64, kC = 8;
  nn::TransformerEncoderLayer layer(nullptr, "", {.d_model = kC, .nhead = 2, .dim_feedforward = 16, .dropout = 0});
  for (int kind = 0; kind < 4; kind++) {
    Graph graph = test::Trace([&] {
      ModelScope scope({.mesh = {{"dp"}, {1}}});
      Var x = Leaf("x", DType::kF32, {kB, kT, kC});
      nn::AttentionMasks masks{.key_padding_mask = IgnoreMask(Leaf("padding", DType::kBool, {kB, kT}))};
      if (kind == 1) masks.is_causal = true;
      if (kind == 2) masks.attn_mask = IgnoreMask(Leaf("mask", DType::kBool, {kT, kT}));
      if (kind == 3) masks.attn_bias = Leaf("bias", DType::kF32, {kT, kT});
      Var y = layer(x, masks);
      return test::Traced{{{"y", y}, {"dx", Grad(SumAll(y * y), {x})[0]}}};
    });
    int64_t most = 0;
    for (const auto& node : graph.nodes)
      for (const ValueInfo& out : node->outputs) most = std::max(most, NumElements(out.shape));
    EXPECT_LT(most, kB * kT * kT / 2) << "masks of kind " << kind;
    EXPECT_GE(most, kB * kT * kC);
  }
}

}  // namespace
}  // namespace weft
