// Every layout trains to the losses of one rank: data, tensor and sequence parallel, FSDP, micro-batches and executors.
// On a GPU all ranks of a layout share it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "share.h"
#include "support/device_under_test.h"
#include "support/training.h"

namespace weft {
namespace {

using namespace testing_;

int Steps() { return OnGpu() ? 10 : std::max(3, 50 / test::Share()); }

struct Param {
  const char* family;
  DType dtype;
  Layout layout;
};
std::string ParamName(const testing::TestParamInfo<Param>& p) {
  return fmt::format("{}_{}_{}", p.param.family, Name(p.param.dtype), Describe(p.param.layout));
}

Job JobOf(const Param& p) {
  bool gpt2 = std::string(p.family) == "gpt2";
  return {.model = Tiny(p.family),
          .precision = {p.dtype, p.dtype, p.dtype},
          .steps = Steps(),
          .smoothing = gpt2 ? 0.1 : 0.0,
          .named_plan = FindFamily(p.family)->plan};
}

const RunResult& OneRank(const Param& p) {
  static std::map<std::string, RunResult> cache;
  std::string key = fmt::format("{}{}", p.family, Name(p.dtype));
  if (!cache.contains(key)) cache[key] = Train(JobOf(p), {});
  return cache[key];
}

std::vector<Param> All() {
  std::vector<Param> all;
  std::vector<const char*> families(std::begin(kFamilies), std::end(kFamilies));
  families.push_back("marian");
  for (const char* family : families)
    for (DType dtype : {DType::kF64, DType::kF32}) {
      // These families differ from the others only in their structure, so f64 and the harder case of micro-batches are
      // enough.
      bool few = std::string(family) != "gpt2" && std::string(family) != "llama";
      if (few && dtype != DType::kF64) continue;
      for (auto [dp, tp] : {std::pair{2, 1}, {4, 1}, {3, 1}, {1, 2}, {1, 4}, {2, 2}})
        for (bool sp : {false, true})
          for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
            for (int64_t micro : {0, 1})
              if (!(sp && tp == 1) && !(fsdp != Fsdp::kNone && dp == 1) && !(few && micro == 0))
                all.push_back({family, dtype, {dp, tp, sp, fsdp, micro}});
      all.push_back({family, dtype, {1, 1, false, Fsdp::kNone, 2}});
      for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret})
        for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}})
          for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull})
            if (dp > 1 || fsdp == Fsdp::kNone) all.push_back({family, dtype, {dp, tp, tp > 1, fsdp, 2, executor}});
    }
  return all;
}

void PrintTo(const Param& p, std::ostream* out) { *out << p.family << " " << Describe(p.layout); }

class Layouts : public testing::TestWithParam<Param> {
 protected:
  static void TearDownTestSuite() {
    for (const auto& [dtype, worst] : Worst())
      fmt::print("shown: layouts, {} steps, {} losses differ from one rank's by at most {:.2e}\n", Steps(), dtype,
                 worst);
  }
  static std::map<std::string, double>& Worst() {  // the largest relative error, by dtype
    static std::map<std::string, double> worst;
    return worst;
  }
};

// The tolerance is what another order of summation may cost over 50 steps. A rounding is 1.1e-16 in f64 and 6e-8 in
// f32. AdamW and the layers amplify it by less than 1e3 here (measured: 1.6e-7 at worst in f32). So f64 has room for
// 1e7 roundings and f32 for thirty. A GPU also sums products in another order than the rank, which is of the CPU.
TEST_P(Layouts, LossesEqualOneRank) {
  const RunResult& want = OneRank(GetParam());
  Layout layout = GetParam().layout;
  layout.device = DeviceUnderTest();
  RunResult got = Train(JobOf(GetParam()), layout);
  double tolerance = GetParam().dtype == DType::kF64 ? 1e-9 : OnGpu() ? 1e-5 : 2e-6, worst = 0;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); i++) {
    double error = std::abs(got.losses[i] - want.losses[i]) / std::abs(want.losses[i]);
    ASSERT_LE(error, tolerance) << "step " << i + 1 << ": " << got.losses[i] << " against " << want.losses[i];
    worst = std::max(worst, error);
  }
  double& all = Worst()[Name(GetParam().dtype)];
  all = std::max(all, worst);
  EXPECT_NE(want.losses.front(), want.losses.back());
  EXPECT_NEAR(got.eval_sum, want.eval_sum, 10 * tolerance * std::abs(want.eval_sum));
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(test::ShareOf(All())), ParamName);

// Hybrid: copies of what dp ranks shard, on a mesh of three axes. With five sequences over four ranks, one rank
// has none.
std::vector<Param> Hybrid() {
  std::vector<Param> all;
  for (const char* family : {"gpt2", "llama"})
    for (DType dtype : {DType::kF64, DType::kF32})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
        for (bool sp : {false, true})
          all.push_back({family,
                         dtype,
                         {.dp = 2, .tp = 2, .sequence_parallel = sp, .fsdp = fsdp, .micro_batch = sp, .replicate = 2}});
  for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret})
    all.push_back(
        {"gpt2", DType::kF64, {.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .executor = executor, .replicate = 2}});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Hybrid, Layouts, testing::ValuesIn(Hybrid()), ParamName);

}  // namespace
}  // namespace weft
