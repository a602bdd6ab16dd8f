// A GPU trains as the CPU does: losses of a whole run, for every family of models and every executor.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/training.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;
using testing_::RunResult;

class CudaTraining : public testing::TestWithParam<std::tuple<const char*, ExecutorKind, DType>> {};

// f32: products are summed in another order, 1e-7 a term, and 50 steps of Adam carry it along; the bar is 1e-4. f64: the
// same with 1e-16.
TEST_P(CudaTraining, LossesAreTheCpus) {
  auto [family, executor, dtype] = GetParam();
  Job job{.model = testing_::Tiny(family), .precision = {dtype, dtype, dtype}};
  Layout cpu, gpu;
  gpu.device = DeviceKind::kCuda;
  gpu.executor = executor;
  gpu.micro_batch = 2;
  cpu.micro_batch = 2;
  RunResult want = testing_::Train(job, cpu), got = testing_::Train(job, gpu);
  double tolerance = dtype == DType::kF64 ? 1e-9 : 1e-4;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); i++) {
    ASSERT_LE(std::abs(got.losses[i] - want.losses[i]), tolerance * std::abs(want.losses[i])) << "step " << i + 1;
    ASSERT_LE(std::abs(got.norms[i] - want.norms[i]), 100 * tolerance * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_EQ(got.eval_count, want.eval_count);
  EXPECT_LE(std::abs(got.eval_sum - want.eval_sum), tolerance * std::abs(want.eval_sum));
}

INSTANTIATE_TEST_SUITE_P(All, CudaTraining,
                         testing::Combine(testing::ValuesIn(testing_::kFamilies),
                                          testing::Values(ExecutorKind::kCompiled, ExecutorKind::kInterpret,
                                                          ExecutorKind::kEager),
                                          testing::Values(DType::kF64, DType::kF32)));

}  // namespace
}  // namespace weft
