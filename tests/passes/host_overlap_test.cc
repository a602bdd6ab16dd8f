// Training on the CPU with parallel.overlap. Collectives run in threads of their own, and kernels may change their
// order. On every layout this gives the bits of a run without it, and makes the same calls, however late the
// collectives are. Halves and chunks (chunk_test) give its numbers, with other calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>
#include <tuple>
#include <vector>

#include "error_of.h"
#include "share.h"
#include "support/training.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collective_fault.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;
using testing_::RunResult;

RunResult TrainLate(const Job& job, const Layout& layout) {
  RunResult result;
  testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    CollectiveFault fault("delay", /*nth=*/200);  // microseconds, at most
    mesh.set_call_filter([&](const ProcessGroup& group, Collective& call) { return fault.Change(group, call); });
    RunResult mine = RunOnRank(job, layout, context, mesh);
    if (context.rank() == 0) result = mine;
  });
  return result;
}

class HostOverlapTraining : public testing::TestWithParam<std::tuple<const char*, OverlapMode>> {
 protected:
  Job JobOf(DType dtype) const {
    DType wide = dtype == DType::kBF16 ? DType::kF32 : dtype;
    return {.model = testing_::Tiny(std::get<0>(GetParam())), .precision = {dtype, wide, wide}, .steps = 2};
  }
};

TEST_P(HostOverlapTraining, GivesTheNumbersOfOneThread) {
  OverlapMode mode = std::get<1>(GetParam());
  int draw = 0;
  for (Layout layout : test::ShareOf(testing_::StreamLayouts())) {
    bool halves = mode == OverlapMode::kHalves, chunks = mode == OverlapMode::kChunks;
    if (layout.executor != ExecutorKind::kCompiled && !halves) continue;  // others have no plan to overlap
    DType dtype = halves || chunks || draw++ % 2 ? DType::kF64 : DType::kBF16;
    Job job = JobOf(dtype);
    std::string what = testing_::Describe(layout) + " " + Name(dtype);
    RunResult want = testing_::Train(job, layout);
    layout.overlap = mode;
    layout.chunks = 2;
    RunResult got = TrainLate(job, layout);
    EXPECT_EQ(got.eval_count, want.eval_count) << what;
    if (halves) {  // adds the sums of two halves: two steps of rounding in f64
      EXPECT_LT(testing_::LossDistance(got, want), 1e-13) << what;
      // Where no row moves to another rank, the halves together move the bytes of the whole, and at most twice the
      // calls.
      for (const auto& [key, count] :
           layout.dp == 1 ? want.counts : std::map<std::pair<int, std::string>, CallCount>()) {
        EXPECT_LE(double(got.counts[key].bytes), 1.05 * double(count.bytes)) << what << " " << key.second;
        EXPECT_LE(got.counts[key].calls, 2 * count.calls) << what << " " << key.second;
      }
      continue;
    }
    if (chunks) {  // sums of a product's rows depend on the number of rows: two steps of rounding in f64
      EXPECT_LT(testing_::LossDistance(got, want), 1e-13) << what;
      EXPECT_NEAR(got.eval_sum, want.eval_sum, 1e-13 * want.eval_sum) << what;
      continue;
    }
    EXPECT_EQ(got.losses, want.losses) << what;
    EXPECT_EQ(got.norms, want.norms) << what;
    EXPECT_EQ(got.eval_sum, want.eval_sum) << what;
    EXPECT_EQ(got.counts, want.counts) << what;
  }
}

using Param = testing::TestParamInfo<std::tuple<const char*, OverlapMode>>;
std::string NameOf(const Param& p) {
  constexpr const char* kNames[] = {"auto", "never", "always", "fill", "halves", "chunks"};
  return fmt::format("{}_{}", std::get<0>(p.param), kNames[size_t(std::get<1>(p.param))]);
}
constexpr OverlapMode kModes[] = {OverlapMode::kAlways, OverlapMode::kFill, OverlapMode::kHalves, OverlapMode::kChunks};
// Sanitized builds run the first two, because threads and memory do not depend on the family.
std::vector<const char*> Families() {
  std::vector<const char*> families(std::begin(testing_::kFamilies), std::end(testing_::kFamilies));
  if (test::Share() > 1) families.resize(2);
  return families;
}
INSTANTIATE_TEST_SUITE_P(All, HostOverlapTraining,
                         testing::Combine(testing::ValuesIn(Families()), testing::ValuesIn(kModes)), NameOf);

// A rank whose collective fails ends with its error, and the other ranks end too.
TEST(HostOverlap, AFailedCollectiveEndsEveryRank) {
  for (int nth : {5, 30, 60}) {
    Layout layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .overlap = OverlapMode::kAlways};
    Job job{.model = testing_::Tiny("gpt2"), .steps = 3};
    CollectiveFault fault("throw", nth);
    std::string error = test::ErrorOf([&] {
      testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
        if (context.rank() == 2)
          mesh.set_call_filter([&](const ProcessGroup& group, Collective& call) { return fault.Change(group, call); });
        RunOnRank(job, layout, context, mesh);
      });
    });
    EXPECT_NE(error.find("the error that WEFT_FAULT asks for"), std::string::npos) << nth << ": " << error;
  }
}

}  // namespace
}  // namespace weft
