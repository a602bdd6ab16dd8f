// Training on packed rows through a State: all executors, meshes, FSDP, dropout, and ranks that know only their own
// sequences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dtensor/dtensor_testing.h"
#include "share.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/parallel/program/compile.h"
#include "weft/parallel/step/init.h"

namespace weft {
namespace {

constexpr int64_t kBatch = 8, kTokens = 7, kWidth = 8, kSteps = 3;
const std::vector<int64_t> kLengths{3, 7, 0, 5, 2, 6, 1, 4};

struct Training {
  int dp = 1, tp = 1;
  bool sequence_parallel = false;
  Fsdp fsdp = Fsdp::kNone;
  ExecutorKind executor = ExecutorKind::kCompiled;
  double dropout = 0;
  bool packed = true;
  int64_t groups = 4;
  bool own_lengths = false;  // each rank knows the lengths of its own sequences only
};
std::string Describe(const Training& r) {
  return fmt::format("{} x {}{}, fsdp {}, executor {}, dropout {}, {} groups", r.dp, r.tp,
                     r.sequence_parallel ? " sp" : "", int(r.fsdp), int(r.executor), r.dropout, r.groups);
}

// The places of all sequences, or those that a rank makes for its own ones with the slots of all ranks.
DTensor PlacesOn(test::Rank rank, const Training& r) {
  Placements batch{Shard(0), Replicate()};
  if (!r.own_lengths)
    return DistributeTensor(nn::PackedPlaces(kLengths, kTokens, {.groups = r.groups}), rank.mesh, batch);
  int64_t own = kBatch / r.dp, first = rank.mesh.coords()[0] * own, groups = r.groups / r.dp;
  std::span<const int64_t> lengths = std::span(kLengths).subspan(size_t(first), size_t(own));
  double slots = double(nn::PackedSlots(lengths, kTokens, groups));
  slots = collectives::AllReduce(Tensor::Scalar(slots, DType::kI64), rank.mesh, "dp", ReduceOp::kMax).Item();
  Tensor places = nn::PackedPlaces(lengths, kTokens, {.groups = groups, .slots = int64_t(slots)});
  return DTensor::FromLocal(places, rank.mesh, batch, {r.groups, int64_t(slots)});
}

// The losses of a few updates, then the last outputs of the encoder.
std::vector<double> Train(const Training& r) {
  std::vector<double> values;
  weft::RunRanks(r.dp * r.tp, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, {{"dp", "tp"}, {r.dp, r.tp}});
    nn::TransformerEncoder encoder(
        nullptr, "encoder", {.d_model = kWidth, .nhead = 2, .dim_feedforward = 12, .dropout = r.dropout}, 2, true);
    State state = Init(encoder, AdamW(1e-2), mesh,
                       {.plan = TransformerPlan({2, 2, r.sequence_parallel}, mesh.shape()),
                        .precision = {DType::kF64, DType::kF64, DType::kF64},
                        .fsdp = r.fsdp,
                        .seed = 3});
    EagerScope eager(state.session(), Loc::current());
    auto step = Compile(
        [&](Var x, Var w, Var padding, Var places) {
          Var real = Cast(Not(padding), DType::kF64);  // [B, T]
          Var y = r.packed ? encoder(x, nn::Packing(places, kBatch, kTokens))
                           : encoder(x, {.key_padding_mask = IgnoreMask(padding)}) * Unsqueeze(real, 2);  // [B, T, C]
          Loss loss{SumAll(Square(y - w) * Unsqueeze(real, 2)), SumAll(real)};
          Var mean = state.optimizer().Step(loss, Grad(loss, encoder.Parameters())).first;
          return std::pair{mean, y};
        },
        state, {.executor = r.executor});
    Placements batch{Shard(0), Replicate()};
    auto place = [&](const Tensor& x) { return DistributeTensor(x, mesh, batch); };
    std::vector<double> padding;
    for (int64_t length : kLengths)
      for (int64_t t = 0; t < kTokens; t++) padding.push_back(t >= length);
    DTensor x = place(test::Draw({kBatch, kTokens, kWidth}, 1)), w = place(test::Draw({kBatch, kTokens, kWidth}, 2)),
            p = place(Tensor::FromDoubles(padding, DType::kBool, {kBatch, kTokens})),
            places = PlacesOn({context, mesh}, r);
    std::vector<double> got;
    for (int64_t i = 0; i < kSteps; i++) {
      auto [loss, y] = step(x, w, p, places);
      got.push_back(loss.Item());
      if (i + 1 < kSteps) continue;
      std::vector<double> last = y.FullTensor().ToDoubles();
      got.insert(got.end(), last.begin(), last.end());
    }
    if (context.rank() == 0) values = got;
  });
  return values;
}

double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() <= size_t(kSteps)) return 1e300;
  double largest = 0;
  for (size_t i = 0; i < a.size(); i++) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// AdamW divides by the root of a gradient's square, so it amplifies the rounding of small gradients. 1e-9 is far below
// what a wrong gradient changes and far above 1e-12.
constexpr double kTolerance = 1e-9;

TEST(PackedTraining, IsThePlainOne) {
  std::vector<double> plain = Train({.packed = false});
  for (int64_t groups : {1, 2, 4, 8}) EXPECT_LE(Difference(Train({.groups = groups}), plain), kTolerance) << groups;
}

TEST(PackedTraining, IsThatOfOneRankOnEveryMesh) {
  std::vector<Training> runs;
  for (auto [dp, tp] : {std::pair{2, 1}, {4, 1}, {1, 2}, {2, 2}})
    for (bool sequence_parallel : {false, true})
      runs.push_back({.dp = dp, .tp = tp, .sequence_parallel = sequence_parallel, .dropout = 0.3});
  for (Fsdp fsdp : {Fsdp::kGradients, Fsdp::kFull}) {
    runs.push_back({.dp = 2, .tp = 2, .fsdp = fsdp});
    runs.push_back({.dp = 4, .fsdp = fsdp, .dropout = 0.3});
  }
  runs.push_back({.dp = 2, .tp = 2, .own_lengths = true});
  runs.push_back({.dp = 4, .dropout = 0.3, .own_lengths = true});
  std::map<double, std::vector<double>> one{{0, Train({})}, {0.3, Train({.dropout = 0.3})}};
  for (const Training& r : test::ShareOf(runs))
    EXPECT_LE(Difference(Train(r), one.at(r.dropout)), kTolerance) << Describe(r);
}

TEST(PackedTraining, HasTheBitsOfEveryExecutor) {
  for (double dropout : {0.0, 0.3})
    for (int ranks : {1, 2}) {
      Training run{.dp = ranks, .tp = ranks, .dropout = dropout};
      std::vector<double> compiled = Train(run);
      for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager}) {
        run.executor = executor;
        EXPECT_EQ(Train(run), compiled) << Describe(run);
      }
    }
}

// Another number of groups gives the elements other slots, so dropout draws other bits for them.
TEST(PackedTraining, DrawsDropoutBySlot) {
  std::vector<double> four = Train({.dropout = 0.3});
  EXPECT_GT(Difference(Train({.dropout = 0.3, .groups = 2}), four), 1e-3);
  EXPECT_GT(Difference(Train({.dropout = 0.3, .packed = false}), four), 1e-3);
}

// Batches of other lengths with the same N run the same program.
TEST(PackedTraining, TracesOncePerNumberOfSlots) {
  test::OnBareMesh({1}, [](test::Rank rank) {
    State state(rank.mesh);
    EagerScope eager(state.session(), Loc::current());
    auto count = Compile([](Var places) { return SumAll(nn::Packing(places, 2, 64).segments()); }, state);
    size_t sizes = 0;
    int64_t last = 0;
    for (int64_t length = 0; length <= 64; length++) {
      int64_t lengths[] = {length, 64 - length / 2};
      Tensor places = nn::PackedPlaces(lengths, 64);
      sizes += places.shape()[1] != last;
      last = places.shape()[1];
      count(places);
    }
    EXPECT_EQ(count.num_traces(), sizes);
    EXPECT_LE(sizes, 6u);
  });
}

}  // namespace
}  // namespace weft
