// Every op in every placement, on 2, 3 and 4 ranks and on 2 x 2, forward and backward, agrees with one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "parallel/sweep.h"
#include "share.h"

namespace weft {
namespace {

// Ops without samples. Leaves compute nothing, redistribute_test covers reshards, and the tests of src/dist sweep
// collectives.
const std::set<Op> kElsewhere{Op::kLeaf,          Op::kReshard,  Op::kAllReduce,  Op::kAllGather,
                              Op::kReduceScatter, Op::kAllToAll, Op::kLocalSlice, Op::kMaskPartial};

using Gaps = std::set<std::pair<std::string, std::string>>;  // (op, kind)
const std::set<std::string> kKinds{"thinned", "fallback"};

bool IsSwept(const std::string& name) {
  for (int i = 0; i < kNumOps; i++)
    if (Name(Op(i)) == name) return !kElsewhere.contains(Op(i));
  return false;
}

// Throws for a line that names no op of the sweep or no kind, because that line would silently excuse nothing.
Gaps ReadGaps(std::istream& file) {
  Gaps gaps;
  std::string line, op, kind, reason;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    WEFT_CHECK(words >> op >> kind >> reason, "known_gaps.txt: a gap needs a reason: " + line);
    WEFT_CHECK(IsSwept(op), "known_gaps.txt: no op of the sweep: " + line);
    WEFT_CHECK(kKinds.contains(kind), "known_gaps.txt: neither thinned nor fallback: " + line);
    WEFT_CHECK(gaps.insert({op, kind}).second, "known_gaps.txt: twice: " + line);
  }
  return gaps;
}

const Gaps& KnownGaps() {
  static const Gaps gaps = [] {
    std::ifstream file(WEFT_KNOWN_GAPS);
    WEFT_CHECK(file.good(), "cannot read " WEFT_KNOWN_GAPS);
    return ReadGaps(file);
  }();
  return gaps;
}

TEST(KnownGaps, NamesOpsAndKindsOfTheSweep) {
  EXPECT_NO_THROW(KnownGaps());
  for (const char* line : {"sdpa_grda thinned why", "leaf thinned why", "sdpa thined why", "sdpa thinned",
                           "sdpa thinned why\nsdpa thinned why"}) {
    std::istringstream file(line);
    EXPECT_THROW(ReadGaps(file), Error) << line;
  }
}

// The result of the ops that have a kernel, and their number. An op without a kernel runs as a composition, so the
// sweep tests its rule and derivative but no kernel of its own. Such ops are counted apart.
struct Sum {
  sweep::Result swept;
  int ops = 0, compositions = 0;
  void Add(const sweep::Result& result) {
    (result.fallback ? compositions : ops)++;
    if (!result.fallback) swept.Add(result);
  }
};
Sum& Total() {
  static Sum total;
  return total;
}

class OpSweep : public testing::TestWithParam<int> {
 protected:
  static void TearDownTestSuite() {
    const sweep::Result& swept = Total().swept;
    fmt::print(
        "shown: op sweep, {} placements of {} ops, {} rank runs, {} refused as they must be{}; {} more ops ran as "
        "compositions, which do not count\n",
        swept.cases, Total().ops, swept.runs, swept.refused,
        test::Share() > 1 ? fmt::format(" (one in {})", test::Share()) : "", Total().compositions);
  }
};

TEST_P(OpSweep, EveryPlacementEqualsOneRank) {
  Op op = Op(GetParam());
  if (kElsewhere.contains(op)) {
    EXPECT_TRUE(Record(op).samples(op).empty());
    return;
  }
  ASSERT_FALSE(Record(op).samples(op).empty()) << Name(op) << " has no samples";
  sweep::Result result = sweep::SweepOp(op, {.share = size_t(test::Share())});
  fmt::print("sweep {:20} {:6} placements, {:7} rank runs, {:6} refused{}\n", Name(op), result.cases, result.runs,
             result.refused, result.fallback ? ", all by composition" : "");
  Total().Add(result);
  auto listed = [&](const char* kind) { return KnownGaps().contains({Name(op), kind}); };
  const char* question = ": is the line of known_gaps.txt missing, or has the gap closed?";
  EXPECT_EQ(result.thinned, listed("thinned")) << Name(op) << question;
  EXPECT_EQ(result.fallback, listed("fallback")) << Name(op) << question;
  EXPECT_GT(result.cases, 0);
  EXPECT_EQ(result.unplaced, 0);
  for (size_t i = 0; i < result.failures.size() && i < 5; i++) ADD_FAILURE() << result.failures[i];
  EXPECT_EQ(result.failures.size(), 0u);
}

// Replicate comes first in every list. A share that started there would run only Replicate for an op with few
// placements.
TEST(OpSweepShare, RunsMoreThanReplicateForEachSampleAndMesh) {
  for (Op op : {Op::kExp, Op::kReduceSum, Op::kEinsum, Op::kLayerNorm}) {
    sweep::Result result = sweep::SweepOp(op, {.share = 1000});
    EXPECT_EQ(result.unplaced, 0) << Name(op);
    EXPECT_GE(result.cases, int64_t(4 * Record(op).samples(op).size())) << Name(op) << ": one a sample and mesh";
  }
}

std::string OpName(const testing::TestParamInfo<int>& param) { return Name(Op(param.param)); }
INSTANTIATE_TEST_SUITE_P(All, OpSweep, testing::Range(0, kNumOps), OpName);

}  // namespace
}  // namespace weft
