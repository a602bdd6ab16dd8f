// Which hosts a build of the CUDA library supports, and the messages for the others.
#include "weft/kernels/cuda/device/support.h"

#include <gtest/gtest.h>

#include "weft/kernels/common/cuda_library.h"

namespace weft::cuda {
namespace {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(DriverFault, NamesWhatIsMissing) {
  DriverFacts good{.driver = 13010, .runtime = 13000, .runs = true, .gpus = 2};
  EXPECT_EQ(DriverFault(good, 0), "");
  EXPECT_EQ(DriverFault(good, 1), "");
  EXPECT_TRUE(Has(DriverFault(good, 2), "device cuda:2: this host has 2 GPUs; start at most that many ranks"));
  DriverFacts none = good, old = good, empty = good;
  none.driver = 0, none.runs = false, none.gpus = 0;
  EXPECT_TRUE(Has(DriverFault(none, 0), "no NVIDIA driver")) << DriverFault(none, 0);
  EXPECT_TRUE(Has(DriverFault(none, 0), "install one for CUDA 13.0 or newer"));
  old.driver = 12040, old.runs = false, old.gpus = 0;
  EXPECT_TRUE(Has(DriverFault(old, 0), "runs CUDA up to 12.4, this build needs 13.0; install a newer driver"));
  empty.gpus = 0;
  EXPECT_TRUE(Has(DriverFault(empty, 0), "an NVIDIA driver but no GPU"));
  DriverFacts unready{
      .driver = 13000, .runtime = 13000, .runs = true, .gpus = 0, .error = "system not yet initialized"};
  EXPECT_TRUE(Has(DriverFault(unready, 0), "CUDA cannot use this host's GPUs: system not yet initialized; nvidia-smi"));
  for (const DriverFacts& facts : {none, old, empty, unready})
    EXPECT_TRUE(Has(DriverFault(facts, 0), "use device=cpu"));
}

TEST(GpuFault, ABuildRunsOnWhatItWasBuiltFor) {
  struct Case {
    const char* built;
    std::vector<int> runs, fails;
  };
  const Case cases[] = {{"90a-real", {90}, {80, 89, 100, 120}},   {"90a", {90}, {80, 100}},
                        {"80-real", {80, 86, 89}, {90, 100}},     {"86-real", {86, 89}, {80, 90}},
                        {"80-virtual", {80, 86, 90, 100}, {}},    {"90", {90, 100}, {80, 89}},
                        {"100f-real", {100, 103}, {90, 120}},     {"80-real,90a-real", {80, 86, 90}, {100}},
                        {"80-real;90a-real", {80, 86, 90}, {100}}};
  for (const Case& c : cases) {
    for (int capability : c.runs) EXPECT_EQ(GpuFault(0, "a GPU", capability, c.built), "") << c.built;
    for (int capability : c.fails) EXPECT_NE(GpuFault(0, "a GPU", capability, c.built), "") << c.built << capability;
  }
}

TEST(GpuFault, SaysWhatToBuildOrThatNothingHelps) {
  EXPECT_EQ(GpuFault(1, "NVIDIA A100", 80, "90a-real"),
            "device cuda:1: NVIDIA A100 has compute capability 8.0, and the kernels of this build are only for "
            "90a-real; configure with -DWEFT_CUDA_ARCH=80-real and build, or use device=cpu");
  std::string old = GpuFault(0, "Tesla V100", 70, "70-real");
  EXPECT_TRUE(Has(old, "Tesla V100 has compute capability 7.0, expected 8.0 or newer; use device=cpu")) << old;
}

// On a host without a driver, opening a GPU says so, also in a build without CUDA: kernels would not help there.
TEST(OpenCuda, SaysWhyThereIsNoGpu) {
  if (HasCudaDriver()) GTEST_SKIP() << "this host has a driver";
  Context context(0, 1);
  absl::Status opened = OpenCuda(context, 0);
  ASSERT_FALSE(opened.ok());
  EXPECT_FALSE(context.Has(DeviceKind::kCuda));
  std::string text(opened.message());
  EXPECT_TRUE(Has(text, "this host has no NVIDIA driver")) << text;
  EXPECT_TRUE(Has(text, "use device=cpu")) << text;
}

}  // namespace
}  // namespace weft::cuda
