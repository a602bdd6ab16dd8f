// The sweep finds broken rules: each mutation changes one fact of one record, or of the programs that are made with it,
// and the sweep of that op must fail. Likewise a mutation of an optimizer must break the law of layouts.
//
// A rule that lays operand and result out differently would have kernels write outside their chunks, so such mutations
// (labels swapped, a permutation forgotten) are not here: they end in a crash, not in a report.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "share.h"
#include "support/training.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

// The real dims, then one change.
template <Op op, auto Change>
Dims Broken(const Node& node) {
  Dims dims = Record(op).dims(node);
  Change(dims);
  return dims;
}

constexpr auto kDropWhole = [](Dims& d) { d.whole.clear(); };
constexpr auto kDropBlocked = [](Dims& d) { d.blocked.clear(); };
constexpr auto kMarkLinear = [](Dims& d) { d.linear = Linear::kJoint; };
constexpr auto kReduceToSum = [](Dims& d) { d.reduce = ReduceOp::kSum; };
constexpr auto kReduceToMax = [](Dims& d) { d.reduce = ReduceOp::kMax; };
constexpr auto kGroupInexact = [](Dims& d) { d.groups[0].exact = false; };
constexpr auto kGroupInnerOfOne = [](Dims& d) { d.groups[0].inner = 1; };

Outputs CrossEntropyWithoutSmoothing(const Node& node) {
  Node plain = node;
  plain.attrs.Set({"smoothing", 0.0});
  return Record(Op::kCrossEntropy).fallback(plain);
}

// The order of two axes on one dim, exchanged: of two collectives in a row on the same dim, each takes the other's
// axis. Chunks keep their sizes, so nothing but the numbers shows it.
template <Op op>
void ExchangeAxes(Graph& local) {
  for (const auto& second : local.nodes) {
    if (second->op != op || second->inputs[0].node().op != op) continue;
    Node& first = *second->inputs[0].node_ptr();
    int64_t dim = first.attrs.Int("dim"), a = first.attrs.Int("axis"), b = second->attrs.Int("axis");
    if (second->attrs.Int("dim") != dim) continue;
    first.attrs.Set({"axis", b});
    second->attrs.Set({"axis", a});
    Sharding& between = first.outputs[0].sharding;
    Placement of_a = between[int(a)];
    between.Set(int(a), between[int(b)]);
    between.Set(int(b), of_a);
  }
}

void ReduceOverTheOtherAxis(Graph& local) {
  for (const auto& node : local.nodes)
    if (node->op == Op::kAllReduce && node->outputs[0].sharding.num_axes() == 2)
      node->attrs.Set({"axis", 1 - node->attrs.Int("axis")});
}

constexpr int kItsDim = -1;  // the attribute "dim" of the op

// The real kernel, but the chunk of operand `of`, or of result 0 for -1, starts at element 0 of the whole dim.
template <Op op, int of, int which>
void RunWithoutOffset(const KernelCall& call) {
  size_t dim = which == kItsDim ? size_t(call.attrs->Int("dim")) : size_t(which);
  std::vector<TensorView> in(call.in.begin(), call.in.end()), out(call.out.begin(), call.out.end());
  (of < 0 ? out[0] : in[size_t(of)]).dims[dim].offset = 0;
  KernelCall moved = call;
  moved.in = in;
  moved.out = out;
  test::KernelsOf(DeviceKind::kCpu).Row(op).run(moved);
}
template <Op op, int of, int which>
void DropOffset(KernelTable& table) {
  KernelRow row = table.Row(op);
  row.run = &RunWithoutOffset<op, of, which>;
  table.Add(op, row);
}

struct Mutation {
  const char* name;
  Op op;
  void (*apply)(OpRecord& record);
  std::vector<std::vector<int>> meshes = {{2}};
  void (*damage)(Graph& local) = nullptr;         // not the record but the programs made with it
  void (*break_kernels)(KernelTable&) = nullptr;  // or the kernels that run them
};

// Mutations that one axis cannot show.
Mutation TwoAxisMutation(const char* name, Op op, void (*damage)(Graph& local)) {
  return {name, op, [](OpRecord&) {}, {{2, 2}}, damage};
}

template <Op op, int of, int which = kItsDim>
Mutation OffsetMutation(const char* name) {
  return {name, op, [](OpRecord&) {}, {{3}}, nullptr, DropOffset<op, of, which>};
}

template <Op op, auto Change>
Mutation DimsMutation(const char* name, std::vector<std::vector<int>> meshes = {{2}}) {
  return {name, op, [](OpRecord& record) { record.dims = Broken<op, Change>; }, std::move(meshes)};
}

const Mutation kMutations[] = {
    DimsMutation<Op::kLayerNorm, kDropWhole>("LayerNormOfAChunk"),
    DimsMutation<Op::kRmsNormGrad, kDropWhole>("RmsNormGradOfAChunk"),
    DimsMutation<Op::kCrossEntropy, kDropWhole>("CrossEntropyOfAChunkOfTheVocabulary"),
    DimsMutation<Op::kArgMax, kDropWhole>("ArgMaxOfAChunk"),
    DimsMutation<Op::kEinsum, kMarkLinear>("EinsumOfTwoPartials"),
    DimsMutation<Op::kMul, kMarkLinear>("MulOfTwoPartials"),
    DimsMutation<Op::kExp, kMarkLinear>("ExpOfAPartial"),
    DimsMutation<Op::kAddScalar, kMarkLinear>("AddScalarToEveryTerm"),
    DimsMutation<Op::kMaximum, kMarkLinear>("MaximumOfTwoPartialSums"),
    DimsMutation<Op::kSumOfSquares, kMarkLinear>("SquaresOfAPartial"),
    DimsMutation<Op::kReduceMax, kReduceToSum>("MaxAddedOverRanks"),
    DimsMutation<Op::kReduceMin, kReduceToMax>("MinTakenAsMaxOverRanks"),
    DimsMutation<Op::kReduceSum, kReduceToMax>("SumTakenAsMaxOverRanks"),
    DimsMutation<Op::kEmbedding, kReduceToMax>("EmbeddingRowsNotHeldWinTheMax"),
    DimsMutation<Op::kReduceProd, kDropBlocked>("ProductsAddedOverRanks"),
    DimsMutation<Op::kSdpa, kDropBlocked>("SoftmaxOverAChunkOfTheKeys"),
    DimsMutation<Op::kSlice, kDropBlocked>("SliceAtALocalStart", {{3}}),
    DimsMutation<Op::kPad, kDropBlocked>("PadAroundEveryChunk", {{3}}),
    DimsMutation<Op::kSplit, kGroupInexact>("SplitOffItsBoundaries", {{3}}),
    DimsMutation<Op::kSplit, kGroupInnerOfOne>("SplitWithAWrongInnerSize", {{3}}),
    DimsMutation<Op::kMerge, kGroupInnerOfOne>("MergeWithAWrongInnerSize", {{3}}),
    DimsMutation<Op::kReverse, kDropBlocked>("ReverseOfEveryChunk", {{3}}),
    DimsMutation<Op::kGather, kReduceToMax>("GatheredElementsNotHeldWinTheMax"),
    DimsMutation<Op::kDynamicSlice, kReduceToMax>("WindowsNotHeldWinTheMax"),
    DimsMutation<Op::kScatter, kDropBlocked>("ScatterByAChunkOfTheIds"),
    DimsMutation<Op::kScatterAdd, kDropBlocked>("ScatterAddCountsItsOperandOnEachRank"),
    DimsMutation<Op::kDynamicUpdate, kDropBlocked>("UpdateByAChunkOfTheWindow", {{3}}),
    DimsMutation<Op::kSort, kDropBlocked>("SortOfEveryChunk"),
    DimsMutation<Op::kCumMax, kDropBlocked>("MaximumSinceTheChunkBegan"),
    DimsMutation<Op::kClampMin, kMarkLinear>("ClampOfAPartial"),
    DimsMutation<Op::kRemainder, kMarkLinear>("RemainderOfTwoPartials"),
    OffsetMutation<Op::kGather, 0>("GatherWithoutItsOffset"),
    OffsetMutation<Op::kScatter, -1>("ScatterWithoutItsOffset"),
    OffsetMutation<Op::kScatterAdd, -1>("ScatterAddWithoutItsOffset"),
    OffsetMutation<Op::kDynamicSlice, 0>("DynamicSliceWithoutItsOffset"),
    OffsetMutation<Op::kDynamicUpdate, -1>("DynamicUpdateWithoutItsOffset"),
    OffsetMutation<Op::kSdpa, 0, 0>("DropoutOfTheFirstSequences"),
    OffsetMutation<Op::kSdpa, 0, 1>("MaskFromTheFirstQuery"),
    OffsetMutation<Op::kSdpa, 0, 2>("KeysOfTheFirstHeads"),
    OffsetMutation<Op::kSdpaGrad, 0, 0>("DropoutOfTheFirstSequencesInGradients"),
    OffsetMutation<Op::kSdpaGrad, 0, 1>("MaskFromTheFirstQueryInGradients"),
    OffsetMutation<Op::kSdpaGrad, 0, 2>("KeysOfTheFirstHeadsInGradients"),
    DimsMutation<Op::kSdpaGrad, kDropBlocked>("GradientsOverAChunkOfTheKeys"),
    DimsMutation<Op::kSdpaGrad, kReduceToMax>("KeyGradientsTakenAsMaxOverRanks"),
    {"SmoothingLostOverAShardedVocabulary", Op::kCrossEntropy,
     [](OpRecord& record) { record.fallback = CrossEntropyWithoutSmoothing; }},
    TwoAxisMutation("OuterAxisOfADimGatheredFirst", Op::kExp, ExchangeAxes<Op::kAllGather>),
    TwoAxisMutation("InnerAxisOfADimSlicedFirst", Op::kAdd, ExchangeAxes<Op::kLocalSlice>),
    TwoAxisMutation("SumOverTheOtherAxis", Op::kReduceSum, ReduceOverTheOtherAxis),
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

class Mutations : public testing::TestWithParam<Mutation> {};

// Sweeps with the mutation, first a share of the placements and then all, until placements fail. The same placements
// must not fail without the mutation. Those of a share are among those of the whole sweep, so the whole sweep fails
// too. op_sweep_test shows that the real rules hold for all placements.
sweep::Result FirstFailures(const Mutation& mutation, const OpTable& broken) {
  sweep::Result result;
  for (size_t share : {64, 8, 1}) {
    sweep::Options options{.meshes = mutation.meshes, .share = share};
    sweep::Result real = sweep::SweepOp(mutation.op, options);
    EXPECT_GT(real.cases, 0);
    EXPECT_TRUE(real.failures.empty()) << "the real rule fails, so a failure proves nothing: " << real.failures[0];
    options.ops = &broken;
    options.damage = mutation.damage;
    options.break_kernels = mutation.break_kernels;
    result = sweep::SweepOp(mutation.op, options);
    if (!result.failures.empty()) break;
  }
  return result;
}

TEST_P(Mutations, TheSweepCatchesIt) {
  const Mutation& mutation = GetParam();
  if (mutation.damage && test::Share() > 1)
    GTEST_SKIP() << "a damaged program may read outside its chunks, which the sanitizer ends before the sweep sees it";
  OpTable broken = Ops();
  mutation.apply(broken[size_t(mutation.op)]);
  sweep::Result result = FirstFailures(mutation, broken);
  ASSERT_FALSE(result.failures.empty()) << "the sweep does not notice";
  fmt::print("shown: mutation {} caught: {} failures in {} placements\n", mutation.name, result.failures.size(),
             result.cases);
  if (!mutation.damage) return;
  sweep::Options one_axis{.damage = mutation.damage, .meshes = {{2}, {3}, {4}}};
  EXPECT_TRUE(sweep::SweepOp(mutation.op, one_axis).failures.empty()) << "one axis is enough to find it";
}

std::string MutationName(const testing::TestParamInfo<Mutation>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, Mutations, testing::ValuesIn(kMutations), MutationName);

// ---- Muon that makes each shard orthogonal by itself, without a gather. ----

std::vector<Var> UpdateOfShards(const ParameterUpdate& u, int axis);

// Elements [start, start + length) of a dim: what follows as if the parameter were these.
std::vector<Var> UpdateOfPart(const ParameterUpdate& u, int dim, int64_t start, int64_t length, int axis) {
  auto part = [&](const Var& x) { return Slice(x, dim, start, length); };
  ParameterUpdate of_part = u;
  of_part.value = part(u.value);
  of_part.gradient = part(u.gradient);
  for (Var& slot : of_part.slots) slot = part(slot);
  return UpdateOfShards(of_part, axis);
}

// Cuts the parameter up over `axis`, which stores it in shards, and over the axes after it.
std::vector<Var> UpdateOfShards(const ParameterUpdate& u, int axis) {
  const ModelScope& scope = ModelScope::Current();
  Sharding stored = scope.Stored(u.parameter);
  while (axis < stored.num_axes() && stored[axis].kind != Placement::kShard) axis++;
  if (axis == stored.num_axes()) {
    Module owner;
    Parameter shard(&owner, "shard", u.value.shape(), {}, true, Parameter::kCompute, u.parameter.product_inputs());
    return FindOptimizer("muon")->update({shard, u.value, u.gradient, u.slots, u.lr, u.scale, u.updates, u.options});
  }
  int dim = stored[axis].dim;
  int64_t n = u.value.dim(dim), ranks = scope.options().mesh.sizes[size_t(axis)], chunk = (n + ranks - 1) / ranks;
  std::vector<std::vector<Var>> results;  // of value and slots: [result][chunk]
  for (int64_t start = 0; start < n; start += chunk) {
    std::vector<Var> part = UpdateOfPart(u, dim, start, std::min(chunk, n - start), axis + 1);
    results.resize(part.size());
    for (size_t i = 0; i < part.size(); i++) results[i].push_back(part[i]);
  }
  std::vector<Var> whole;
  for (const std::vector<Var>& chunks : results) whole.push_back(Concat(chunks, dim));
  return whole;
}

std::vector<Var> UpdateByShards(const ParameterUpdate& u) {
  std::vector<Var> whole = UpdateOfShards(u, 0);
  for (Var& x : whole) x = Reshard(x, ModelScope::Current().Stored(u.parameter));
  return whole;
}

TEST(MuonByShards, TheLawOfLayoutsCatchesIt) {
  using namespace testing_;
  OptimizerRule by_shards = *FindOptimizer("muon");
  by_shards.update = UpdateByShards;
  Job real{.model = TinyLlama(),
           .precision = {DType::kF64, DType::kF64, DType::kF64},
           .steps = 3,
           .optimizer = WithDefaults("muon")};
  Job mutated = real;
  mutated.optimizer.rule = &by_shards;
  const RunResult one = Train(real, {});
  EXPECT_EQ(Train(mutated, {}).losses, one.losses) << "one rank has no shards";
  struct {
    Layout layout;
    bool shards;
  } cases[] = {{{.dp = 2}, false},
               {{.dp = 1, .replicate = 2}, false},
               {{.tp = 2}, true},
               {{.dp = 2, .fsdp = Fsdp::kGradients}, true},
               {{.dp = 2, .fsdp = Fsdp::kFull}, true},
               {{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull}, true},
               {{.dp = 2, .fsdp = Fsdp::kFull, .replicate = 2}, true}};
  for (const auto& c : cases) {
    constexpr double kLaw = 1e-9;  // of optimizers_test
    EXPECT_LE(LossDistance(Train(real, c.layout), one), kLaw) << Describe(c.layout);
    double distance = LossDistance(Train(mutated, c.layout), one);
    EXPECT_EQ(distance > kLaw, c.shards) << Describe(c.layout) << ": " << distance;
    if (c.shards) fmt::print("shown: mutation MuonByShards caught on {}: {:.1e}\n", Describe(c.layout), distance);
  }
}

}  // namespace
}  // namespace weft
