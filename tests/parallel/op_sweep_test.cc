// Every op of the closed set, every placement, 2, 3 and 4 ranks and 2 x 2, forward and backward, against one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "parallel/sweep.h"

namespace weft {
namespace {

// What has no samples: leaves compute nothing, reshards have redistribute_test, collectives have dist's own sweep.
const std::set<Op> kElsewhere{Op::kLeaf,          Op::kReshard,  Op::kAllReduce,  Op::kAllGather,
                              Op::kReduceScatter, Op::kAllToAll, Op::kLocalSlice, Op::kMaskPartial};

class OpSweep : public testing::TestWithParam<int> {};

TEST_P(OpSweep, EveryPlacementEqualsOneRank) {
  Op op = Op(GetParam());
  if (kElsewhere.contains(op)) {
    EXPECT_TRUE(Record(op).samples(op).empty());
    return;
  }
  ASSERT_FALSE(Record(op).samples(op).empty()) << Name(op) << " has no samples";
  sweep::Result result = sweep::SweepOp(op, {});
  fmt::print("sweep {:20} {:6} placements, {:7} rank runs, {:6} refused\n", Name(op), result.cases, result.runs,
             result.refused);
  EXPECT_GT(result.cases, 0);
  for (size_t i = 0; i < result.failures.size() && i < 5; i++) ADD_FAILURE() << result.failures[i];
  EXPECT_EQ(result.failures.size(), 0u);
}

std::string OpName(const testing::TestParamInfo<int>& param) { return Name(Op(param.param)); }
INSTANTIATE_TEST_SUITE_P(All, OpSweep, testing::Range(0, kNumOps), OpName);

}  // namespace
}  // namespace weft
