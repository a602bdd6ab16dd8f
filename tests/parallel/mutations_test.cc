// The sweep finds broken rules: each mutation changes one fact of one record, and the sweep of that op must fail.
//
// A rule that lays operand and result out differently would have kernels write outside their chunks, so such mutations
// (labels swapped, a permutation forgotten) are not here: they end in a crash, not in a report.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/sweep.h"

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

struct Mutation {
  const char* name;
  Op op;
  void (*apply)(OpRecord& record);
  std::vector<std::vector<int>> meshes = {{2}};
};

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
    {"SmoothingLostOverAShardedVocabulary", Op::kCrossEntropy,
     [](OpRecord& record) { record.fallback = CrossEntropyWithoutSmoothing; }},
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

class Mutations : public testing::TestWithParam<Mutation> {};

TEST_P(Mutations, TheSweepCatchesIt) {
  const Mutation& mutation = GetParam();
  sweep::Options options{.meshes = mutation.meshes};
  sweep::Result real = sweep::SweepOp(mutation.op, options);
  EXPECT_GT(real.cases, 0);
  EXPECT_TRUE(real.failures.empty()) << "the real rule fails, so a failure proves nothing: " << real.failures[0];

  OpTable broken = Ops();
  mutation.apply(broken[size_t(mutation.op)]);
  options.ops = &broken;
  sweep::Result result = sweep::SweepOp(mutation.op, options);
  ASSERT_FALSE(result.failures.empty()) << "the sweep does not notice";
  fmt::print("shown: mutation {} caught: {} failures in {} placements\n", mutation.name, result.failures.size(),
             result.cases);
}

std::string MutationName(const testing::TestParamInfo<Mutation>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, Mutations, testing::ValuesIn(kMutations), MutationName);

}  // namespace
}  // namespace weft
