#include "launcher/doctor/product_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "absl/functional/function_ref.h"
#include "weft/kernels/cpu/product/gemm.h"
#include "weft/kernels/cpu/product/gemm_bf16.h"
#include "weft/kernels/cpu/product/gemm_core.h"
#include "weft/kernels/cpu/product/gemm_f32.h"
#include "weft/kernels/cpu/product/gemm_use.h"
#include "weft/kernels/cpu/product/onednn.h"

namespace weft {
namespace {

constexpr int64_t kSize = 512;

// Returns the GFLOP/s of a product of matrices [kSize, kSize] on one thread.
double SpeedOf(absl::FunctionRef<void()> product) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();  // s
  for (int i = 0; i < 5; i++) {
    Clock::time_point begin = Clock::now();
    product();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2e-9 * kSize * kSize * kSize / best;
}

double SpeedOfF64() {
  std::vector<double> a(kSize * kSize, 1.0), b = a, c = a;
  cpu::GemmUse use(1);
  return SpeedOf([&] {
    cpu::Gemm<double>(kSize, kSize, kSize, {a.data(), kSize, 1}, {b.data(), kSize, 1}, {c.data(), kSize, 1});
  });
}

// Without OpenBLAS too.
double SpeedOfF32() {
  std::vector<float> a(kSize * kSize, 1.0f), b = a, c = a;
  return SpeedOf([&] {
    cpu::GemmF32(kSize, kSize, kSize, {a.data(), kSize, 1}, {b.data(), kSize, 1}, {c.data(), kSize, 1});
  });
}

double SpeedOfBf16() {
  std::vector<BF16> a(kSize * kSize, BF16(1.0f)), b = a;
  std::vector<float> c(kSize * kSize);
  return SpeedOf([&] {
    cpu::GemmBf16<float>(kSize, kSize, kSize, {a.data(), kSize, 1}, {b.data(), kSize, 1}, {c.data(), kSize, 1});
  });
}

}  // namespace

// An OpenBLAS that was built for one processor or for old ones multiplies several times slower than this processor can.
Finding ExamineOpenBlas() {
  Finding f{.what = "OpenBLAS"};
  if (absl::Status opened = cpu::OpenGemm(); !opened.ok()) {
    f.grade = Finding::kFault;
    f.fact = std::string(opened.message());
    return f;
  }
  cpu::CpuFeatures features = cpu::FeaturesOfCpu();
  f.fact = fmt::format("kernels for {}, {:.1f} GFLOP/s of f64 on one thread", cpu::GemmCore(), SpeedOfF64());
  if (!cpu::IsFastCore(cpu::GemmCore(), features)) {
    f.grade = Finding::kWarning;
    f.fact += fmt::format("; this processor can run those for {}", cpu::FastestCore(features));
    f.remedy = "install an OpenBLAS with kernels for all processors (Debian: libopenblas0-pthread)";
  } else if (std::string note = cpu::GemmNote(); !note.empty()) {
    f.grade = Finding::kWarning;
    f.fact += "; " + note;
  }
  return f;
}

// A limit of instructions makes steps several times slower, and nothing else says so.
Finding ExamineOneDnn() {
  Finding f{.what = "oneDNN", .fact = cpu::OneDnnVersion()};
  cpu::CpuFeatures features = cpu::FeaturesOfCpu();
  bool f32 = cpu::SuitsOneDnn(kSize, kSize, kSize), bf16 = cpu::HasBf16Gemm();
  if (f32) f.fact += fmt::format(", {:.1f} GFLOP/s of f32", SpeedOfF32());
  if (bf16) f.fact += fmt::format("{}{:.1f} of bf16", f32 ? " and " : ", GFLOP/s: ", SpeedOfBf16());
  f.fact += f32 || bf16 ? " on one thread" : ", which has no product that is faster than OpenBLAS's here";
  if (f32 >= features.avx512 && bf16 >= features.avx512_bf16) return f;
  f.grade = Finding::kWarning;
  f.fact += "; it uses fewer instructions than this processor has";
  f.remedy = "unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA";
  return f;
}

}  // namespace weft
