// Attention by measured time on a GPU: both passes are timed once and kept, the least time decides, a recorded program
// runs the choice, and SdpaBackends makes each backend run or explains why it cannot.
#include <fmt/format.h>

#include <filesystem>

#include "error_of.h"
#include "kernels/harness.h"
#include "scoped_environment.h"
#include "weft/core/compile/executable.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ops/ops.h"
#include "weft/core/runtime/backend_times.h"
#include "weft/core/transforms/grad.h"

namespace weft::test {
namespace {

constexpr DeviceKind kGpu = DeviceKind::kCuda;

// q, k and v are bf16 [B, T, H, D] with standard normal values.
struct Shapes {
  int64_t B = 2, T = 2048, H = 8, D = 128;
  DType dtype = DType::kBF16;

  Shape shape() const { return {B, T, H, D}; }
};
Graph TraceAttention(const Shapes& s) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  std::vector<Var> x;
  for (const char* name : {"q", "k", "v"}) x.push_back(Leaf(name, s.dtype, s.shape()));
  Var y = Sdpa(x[0], x[1], x[2], {});  // [B, T, H, D]
  std::vector<Var> d = Grad(SumAll(Cast(y * y, DType::kF32)), {x[0], x[1], x[2]});
  return trace.Finish({{"y", y}, {"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}});
}
constexpr const char* kResults[] = {"y", "dq", "dk", "dv"};

// A context of its own on the GPU, so that it has its own times.
class Gpu {
 public:
  explicit Gpu(const Numerics& numerics) : context_(NewContext(1)) { context_->set_numerics(numerics); }

  std::unique_ptr<Executable> Compiled(const Shapes& s) {
    runtime_ = {.context = context_.get(), .device = kGpu};
    LocalProgram local = Lower(TraceAttention(s), {}, "");
    return std::make_unique<Executable>(
        weft::Compile(local, runtime_, ""), runtime_, [&](const std::string& name, const ValueInfo& info) {
          Rng rng{uint64_t(name[0])};
          std::normal_distribution<double> normal;
          std::vector<double> values(size_t(NumElements(info.shape)));
          for (double& value : values) value = normal(rng);
          return Tensor::FromDoubles(values, info.dtype, info.shape).To(runtime_.memory());
        });
  }
  // Returns which backend runs the op, and why.
  std::string Explain(const Executable& program, Op op) const {
    const KernelRow& row = context_->kernels(kGpu).Row(op);
    for (size_t i = 0; i < program.plan().steps.size(); i++)
      if (program.plan().steps[i].node->op == op) return row.explain(program.calls()[i]);
    return "";
  }
  std::map<std::string, Tensor> Results(Executable& program) const {
    program.Run();
    std::map<std::string, Tensor> results;
    for (const char* name : kResults) results[name] = program.Output(name).To(CpuRuntime());
    return results;
  }
  const BackendTimes& times() const { return context_->backend_times(); }

 private:
  std::unique_ptr<Context> context_;
  Runtime runtime_;
};

class AttentionGpuChoice : public testing::Test {
 protected:
  std::string folder_ = testing::TempDir() + "weft_attention_gpu_" + std::to_string(std::random_device{}());
  ScopedEnvironment cache_{"XDG_CACHE_HOME", folder_.c_str()}, backend_{"WEFT_SDPA", nullptr},
      tune_{"WEFT_TUNE", nullptr};

  void SetUp() override {
    if (KindUnderTest() != kGpu) GTEST_SKIP() << "needs a GPU: WEFT_TEST_DEVICE=cuda";
  }
  ~AttentionGpuChoice() override { std::filesystem::remove_all(folder_); }
};

// Returns the backend of an answer such as "flash (412 us; cudnn: 530 us)".
std::string BackendOf(const std::string& answer) { return answer.substr(0, answer.find(' ')); }

TEST_F(AttentionGpuChoice, MeasuresOnceAndTakesTheLeast) {
  for (const Shapes& s : {Shapes{}, Shapes{.B = 8, .T = 64, .H = 2, .D = 64}, Shapes{.B = 1, .T = 1, .H = 8},
                          Shapes{.B = 1, .T = 32, .H = 2, .D = 64, .dtype = DType::kF32}}) {
    std::string what = fmt::format("{} {}", Name(s.dtype), ToString(s.shape()));
    Gpu first({.deterministic = false});
    std::unique_ptr<Executable> program = first.Compiled(s);
    std::string text = first.times().Text(), forward = first.Explain(*program, Op::kSdpa);
    if (text.empty() && forward.starts_with("flash (cudnn: ")) {  // flash has no rival for a large call
      fmt::print("shown: {}: {}\n", what, forward);
      continue;
    }
    EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 4) << what << ": two backends, two passes\n" << text;
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) {
      std::string answer = first.Explain(*program, op);
      EXPECT_NE(answer.find(" us"), std::string::npos) << what << ": " << answer;
      fmt::print("shown: {} {}: {}\n", what, Name(op), answer);
    }
    Gpu second({.deterministic = false});
    std::unique_ptr<Executable> again = second.Compiled(s);
    EXPECT_EQ(second.times().Text(), text) << what << ": the times of the file, to the last bit";
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) EXPECT_EQ(second.Explain(*again, op), first.Explain(*program, op)) << what;
  }
}

TEST_F(AttentionGpuChoice, ADeterministicRunMeasuresNothing) {
  Gpu gpu({});
  std::unique_ptr<Executable> program = gpu.Compiled({});
  EXPECT_TRUE(gpu.times().empty());
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_EQ(gpu.Explain(*program, Op::kSdpa).find(" us"), std::string::npos);
}

// The program is recorded in its third run. A run in which both passes have one backend by name gives the same forward
// bits; the fastest backward pass of cuDNN adds in any order, so its bits may differ.
TEST_F(AttentionGpuChoice, ARecordingRunsTheChoice) {
  Gpu measured({.deterministic = false});
  std::unique_ptr<Executable> program = measured.Compiled({});
  std::map<std::string, Tensor> first = measured.Results(*program);
  for (int run = 0; run < 4; run++) {
    Tensor y = measured.Results(*program)["y"];
    EXPECT_EQ(std::memcmp(y.data(), first["y"].data(), y.bytes()), 0) << "run " << run;
  }
  std::string forward = BackendOf(measured.Explain(*program, Op::kSdpa));
  Gpu named({.deterministic = false, .attention = forward});
  std::unique_ptr<Executable> by_name = named.Compiled({});
  EXPECT_EQ(named.Explain(*by_name, Op::kSdpa), forward);
  Tensor y = named.Results(*by_name)["y"];
  EXPECT_EQ(std::memcmp(y.data(), first["y"].data(), y.bytes()), 0);
}

// Each backend rounds its factors to bf16 and its results once. Gradients add two products of such factors, of size up
// to 10, so 2^-4 covers their roundings; a wrong mask or scale is off by a hundred times as much.
TEST_F(AttentionGpuChoice, TheScopeMakesEachBackendRun) {
  Shapes s{.B = 1, .T = 128, .H = 2, .D = 64};
  std::map<std::string, Tensor> want;
  for (SdpaBackend backend : {SdpaBackend::kPlain, SdpaBackend::kFlash, SdpaBackend::kCudnn}) {
    SdpaBackends only({backend});
    Gpu gpu({.deterministic = false});
    std::unique_ptr<Executable> program;
    std::string error = ErrorOf([&] { program = gpu.Compiled(s); });
    if (!program) {  // a build or host without cuDNN
      EXPECT_NE(error.find("no backend of cudnn takes"), std::string::npos) << error;
      continue;
    }
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) EXPECT_EQ(BackendOf(gpu.Explain(*program, op)), Name(backend));
    EXPECT_TRUE(gpu.times().empty()) << "one contender is not timed";
    std::map<std::string, Tensor> got = gpu.Results(*program);
    if (want.empty()) want = got;
    for (const char* name : kResults)
      for (int64_t i = 0; i < NumElements(s.shape()); i++) {
        auto value = [&](std::map<std::string, Tensor>& results) { return double(float(results[name].as<BF16>()[i])); };
        ASSERT_LE(std::fabs(value(got) - value(want)), 0x1p-4 * (1 + std::fabs(value(want))))
            << Name(backend) << " " << name << " " << i;
      }
  }
}

TEST_F(AttentionGpuChoice, AScopeThatNoBackendFitsIsAnError) {
  Gpu gpu({});
  SdpaBackends only({SdpaBackend::kCudnn});
  std::string error = ErrorOf([&] { gpu.Compiled({.dtype = DType::kF32}); });
  EXPECT_NE(error.find("sdpa at gpu_choice_test.cc:"), std::string::npos) << error;
  EXPECT_NE(error.find("on a GPU no backend of cudnn takes q f32 [2, 2048, 8, 128]"), std::string::npos) << error;
  EXPECT_NE(error.find("cudnn: f32 is neither bf16 nor f16"), std::string::npos) << error;
  EXPECT_TRUE(error.ends_with("allow flash and plain in SdpaBackends")) << error;
}

}  // namespace
}  // namespace weft::test
