// Which backend runs attention on a GPU, and why the others do not. The test asks as a plan does, without a GPU or the
// CUDA library. planned_rows_test checks that the CUDA library gives the same answers.
#include <bit>
#include <cstdlib>

#include "double/device_double.h"
#include "error_of.h"
#include "harness.h"
#include "weft/core/runtime/backend_times.h"
#include "weft/kernels/cuda/plan/planned_rows.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::test {
namespace {

constexpr int64_t B = 4, H = 16;

class AttentionChoice : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("WEFT_SDPA");
    unsetenv("WEFT_TUNE");
    cuda::AddPlannedRows(Cuda());
    frontend_ = Explain(Op::kSdpa, DType::kBF16) == "cudnn";
  }
  void TearDown() override { unsetenv("WEFT_SDPA"); }

  KernelTable& Cuda() const { return context_.kernels(DeviceKind::kCuda); }
  std::string Explain(Op op, DType dtype, int64_t head_size = 64) const {
    return With(op, dtype, head_size, Cuda().Row(op).explain);
  }
  size_t Workspace(Op op, DType dtype, int64_t head_size = 64) const {
    return With(op, dtype, head_size, Cuda().Row(op).workspace);
  }
  std::string Key(Op op, DType dtype) const { return With(op, dtype, 64, cuda::SdpaKey); }
  // Returns cuDNN's answer to a call whose shape it supports: `what`, or that the build has no cudnn-frontend.
  std::string Cudnn(const std::string& what) const {
    return frontend_ ? "cudnn: " + what
                     : "cudnn: built without cudnn-frontend; run launcher/setup.sh, then configure and build again";
  }

  Context context_{0, 1};
  bool frontend_ = false;  // whether the build has cudnn-frontend
  int64_t tokens_ = 64, kv_heads_ = H;
  std::vector<Attrs::Item> options_;

 private:
  template <class R>
  R With(Op op, DType dtype, int64_t head_size, R (*ask)(const KernelCall&)) const {
    TensorView x = MakeView(nullptr, dtype, {B, tokens_, H, head_size});          // [B, T, H, D]
    TensorView k = MakeView(nullptr, dtype, {B, tokens_, kv_heads_, head_size});  // [B, T, G, D]
    TensorView lse = MakeView(nullptr, AccumulateType(dtype), {B, tokens_, H});   // [B, T, H]
    std::vector<TensorView> in{x, k, k}, out{x, lse};
    if (op == Op::kSdpaGrad) in = {x, k, k, x, lse, x}, out = {x, k, k};
    Attrs attrs{{"causal", true}};
    for (const Attrs::Item& option : options_) attrs.Set(option);
    return ask({&attrs, in, out, nullptr, 0, &context_, nullptr});
  }
};

// cuDNN's deterministic gradient stores scores. It runs in parts, which store as many as 1024 keys give all heads,
// until a single head would store more.
TEST_F(AttentionChoice, DeterministicRunsTakeCudnnsBackwardInParts) {
  constexpr int64_t kHeadSize = 72;  // which flash does not take in one pass
  std::string scores =
      "its deterministic gradient stores the scores of at least one of 64 KV heads, more memory than 1024 keys take "
      "for "
      "all of them; kernels.deterministic=false goes without them";
  for (bool deterministic : {true, false})
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      context_.set_numerics({.deterministic = deterministic});
      std::string both = deterministic ? "cudnn" : "cudnn or flash, whichever takes less time on the GPU";
      tokens_ = 1 << 17;
      EXPECT_EQ(Explain(Op::kSdpaGrad, dtype, kHeadSize),
                frontend_ && !deterministic ? both : "flash (" + Cudnn(scores) + ")");
      for (int64_t tokens : {1024, 2048, 8192, 65536}) {
        tokens_ = tokens;
        EXPECT_EQ(Explain(Op::kSdpaGrad, dtype, kHeadSize), frontend_ ? both : "flash (" + Cudnn("") + ")");
        size_t dq = size_t(B * H * tokens_ * kHeadSize) * sizeof(float),
               part = size_t(B * H * tokens_ * 1024) * SizeOf(dtype);
        size_t rows = Workspace(Op::kSdpa, dtype, kHeadSize), has = Workspace(Op::kSdpaGrad, dtype, kHeadSize);
        if (!frontend_) continue;
        EXPECT_NEAR(double(has - rows), double(deterministic ? part : dq), 0.1 * double(dq)) << tokens;
      }
    }
}

// On Hopper the gradient in one pass is faster than cuDNN's, and gives the same bits in every run if it is asked to.
// For few keys and heads of 128 columns it is not.
TEST_F(AttentionChoice, TheOnePassLeads) {
  std::string cudnn = frontend_ ? "cudnn" : "flash (" + Cudnn("") + ")";
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (auto [size, tokens] : {std::pair(64, 64), std::pair(128, 4096), std::pair(128, 2048)}) {
      bool leads = tokens != 2048;
      tokens_ = tokens, options_ = {};
      context_.set_numerics({});
      EXPECT_EQ(Explain(Op::kSdpaGrad, dtype, size), leads ? "flash in one pass" : cudnn);
      EXPECT_EQ(Explain(Op::kSdpa, dtype, size), cudnn);
      context_.set_numerics({.attention = "plain"});
      EXPECT_EQ(Explain(Op::kSdpaGrad, dtype, size), "plain");
      context_.set_numerics({});
      options_ = {{"backends", int64_t(0b101)}};
      std::string others = Explain(Op::kSdpaGrad, dtype, size);
      EXPECT_TRUE(others.starts_with(frontend_ ? "cudnn" : "plain")) << others;
    }
}

TEST_F(AttentionChoice, NumericsNameWhoIsAskedFirst) {
  for (const char* backend : {"flash", "plain"}) {
    context_.set_numerics({.deterministic = false, .attention = backend});
    EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16), backend);
    EXPECT_EQ(Explain(Op::kSdpaGrad, DType::kBF16, 72), backend);
  }
  context_.set_numerics({.attention = "math"});
  EXPECT_THROW(
      try { Explain(Op::kSdpa, DType::kBF16); } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("no backend \"math\"; expected cudnn, flash or plain"), std::string::npos);
        throw;
      },
      Error);
}

TEST_F(AttentionChoice, TheEnvironmentCountsWhereNumericsNameNone) {
  setenv("WEFT_SDPA", "plain", 1);
  EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16), "plain");
  context_.set_numerics({.attention = "flash"});
  EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16), "flash");
}

TEST_F(AttentionChoice, SaysWhyInTheOrderOfAsking) {
  std::string cudnn = "cudnn: f64 is neither bf16 nor f16", flash = "flash: f64 is none of bf16, f16 and f32";
  EXPECT_EQ(Explain(Op::kSdpa, DType::kF64), "plain (" + cudnn + "; " + flash + ")");
  context_.set_numerics({.attention = "flash"});
  EXPECT_EQ(Explain(Op::kSdpa, DType::kF64), "plain (" + flash + "; " + cudnn + ")");
}

TEST_F(AttentionChoice, FlashTakesWhatCudnnDoesNot) {
  const std::pair<std::vector<Attrs::Item>, std::string> cases[] = {
      {{{"softcap", 30.0}}, "it does not take soft caps"},
      {{{"mask", int64_t(1)}}, "it does not take masks"},
      {{{"bias", int64_t(1)}}, "it does not take biases"},
      {{{"sinks", int64_t(1)}}, "it does not take sinks"},
      {{{"offsets", int64_t(1)}}, "it does not take offsets"},
      {{{"segments", int64_t(1)}}, "it does not take segments"},
      {{{"p", 0.1}}, "it does not drop probabilities"},
      {{{"causal", int64_t(0)}, {"left", int64_t(3)}}, "it takes windows only with a causal mask"},
      {{{"left", int64_t(3)}, {"causal_offset", int64_t(5)}},
       "a window with causal offset 5, 64 queries and 64 keys, expected offset 0 and as many keys"}};
  for (const auto& [options, why] : cases) {
    options_ = options;
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) EXPECT_EQ(Explain(op, DType::kBF16), "flash (cudnn: " + why + ")");
  }
}

TEST_F(AttentionChoice, CudnnTakesWindowsWithACausalMask) {
  options_ = {{"left", int64_t(3)}};
  for (Op op : {Op::kSdpa, Op::kSdpaGrad})
    EXPECT_EQ(Explain(op, DType::kBF16), frontend_ ? "cudnn" : "flash (" + Cudnn("") + ")");
}

// cuDNN also gets two numbers of 4 bytes per sequence, in a piece of 256 bytes.
TEST_F(AttentionChoice, CudnnTakesLengths) {
  for (int64_t causal : {0, 1})
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) {
      options_ = {{"causal", causal}};
      size_t without = Workspace(op, DType::kBF16, 72);
      options_ = {{"causal", causal}, {"lengths", int64_t(1)}};
      EXPECT_EQ(Explain(op, DType::kBF16), frontend_ ? "cudnn" : "flash (" + Cudnn("") + ")");
      size_t of_lengths = Workspace(op, DType::kBF16, 72) - without;
      EXPECT_EQ(of_lengths, frontend_ ? 256u : 0u);
    }
}

// With sums of dQ in any order, flash keeps them in f32. Rows are padded to 128.
TEST_F(AttentionChoice, SumsInAnyOrderTakeWorkspace) {
  tokens_ = 300;
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    size_t bytes[2];
    for (bool deterministic : {true, false}) {
      context_.set_numerics({.deterministic = deterministic, .attention = "flash"});
      bytes[deterministic] = Workspace(Op::kSdpaGrad, dtype, 72);
    }
    EXPECT_EQ(bytes[false] - bytes[true], dtype == DType::kF32 ? 0 : size_t(B * H * 384 * 72 * 4));
  }
}

// One pass keeps two numbers per query, sums of dQ, and a counter of 16 bytes. With an order it also counts what was
// added to each 64 x 64 sums of dQ, and keeps dK and dV for each query head that shares a KV head. In any order they
// are kept once per KV head, if these are few.
TEST_F(AttentionChoice, OnePassTakesWorkspaceForSums) {
  kv_heads_ = 4;
  for (auto [tokens, few] : {std::pair(1024, true), std::pair(8192, false)})
    for (bool deterministic : {true, false}) {
      tokens_ = tokens;
      context_.set_numerics({.deterministic = deterministic, .attention = "flash"});
      size_t of_head = size_t(B * tokens * 64 * 4), rows = 2 * size_t(B * H * tokens * 4) + 16;
      size_t want = rows + H * of_head + (deterministic ? 2 * H * of_head + H * of_head / 4096 : 0);
      if (!deterministic && few) want += size_t(2 * kv_heads_) * of_head;
      EXPECT_EQ(Workspace(Op::kSdpaGrad, DType::kBF16), want) << tokens << " " << deterministic;
    }
}

// Flash keeps two numbers of 8 bytes per 64 queries and per 64 keys.
TEST_F(AttentionChoice, SegmentsTakeWorkspace) {
  for (int64_t tokens : {64, 65, 1000})
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) {
      tokens_ = tokens, options_ = {};
      context_.set_numerics({.attention = "flash"});
      size_t without = Workspace(op, DType::kBF16, 72);
      options_ = {{"segments", int64_t(1)}};
      EXPECT_EQ(Workspace(op, DType::kBF16, 72) - without, size_t(B * 2 * ((tokens + 63) / 64) * 16));
    }
}

// This holds whether or not products may round to TF32.
TEST_F(AttentionChoice, FlashTakesF32OfEveryHeadSize) {
  std::string flash = "flash (cudnn: f32 is neither bf16 nor f16)";
  for (bool tf32 : {false, true})
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) {
      context_.set_numerics({.tf32 = tf32});
      for (int64_t size : {1, 33, 64, 80, 256}) EXPECT_EQ(Explain(op, DType::kF32, size), flash) << size;
      std::string text = Explain(op, DType::kF32, 257);
      EXPECT_TRUE(text.starts_with("plain (cudnn: ") && text.ends_with("; flash: head size 257 is above 256)")) << text;
    }
}

TEST_F(AttentionChoice, SaysThatNobodyTakesACall) {
  std::string text = Explain(Op::kSdpaGrad, DType::kF32, 2000);
  EXPECT_TRUE(text.starts_with("no backend (cudnn: ")) << text;
  EXPECT_TRUE(text.ends_with("; plain: head size 2000 is above 1024; use more and smaller heads)")) << text;
  std::string error = ErrorOf([&] { Workspace(Op::kSdpaGrad, DType::kF32, 2000); });
  EXPECT_TRUE(
      error.starts_with("sdpa_grad: on a GPU no backend of cudnn, flash and plain takes q f32 [4, 64, 16, "
                        "2000], k f32 [4, 64, 16, 2000] and v f32 [4, 64, 16, 2000] (cudnn: "))
      << error;
  EXPECT_TRUE(error.ends_with("use more and smaller heads); change the operands as one of the reasons asks")) << error;
}

// Every set of allowed backends, for calls that all, two or one of them take: the first one that is allowed and takes
// the call runs it, and otherwise there is an error that names what would.
TEST_F(AttentionChoice, TheScopeLeavesBackendsOut) {
  const std::pair<DType, int64_t> takers[] = {{DType::kBF16, 0b111}, {DType::kF32, 0b110}, {DType::kF64, 0b100}};
  for (const auto& [dtype, all] : takers)
    for (Op op : {Op::kSdpa, Op::kSdpaGrad})
      for (int64_t allowed = 1; allowed <= kAllSdpaBackends; allowed++) {
        int64_t takes = frontend_ ? all : all & ~int64_t(1), runs = takes & allowed;
        options_ = {{"backends", allowed}};
        std::string text = Explain(op, dtype, 72), error = ErrorOf([&] { Workspace(op, dtype, 72); });
        if (runs) {
          int first = std::countr_zero(uint64_t(runs));
          EXPECT_TRUE(text.starts_with(Name(SdpaBackend(first)))) << text;
          EXPECT_EQ(error, "");
          for (int i = 0; i < first; i++)
            EXPECT_EQ(text.find(Name(SdpaBackend(i)) + std::string(": SdpaBackends leaves it out")) != text.npos,
                      !(allowed >> i & 1))
                << text;
          continue;
        }
        EXPECT_TRUE(text.starts_with("no backend (")) << text;
        EXPECT_NE(error.find(" no backend of " + SdpaBackendNames(allowed) + " takes q "), error.npos) << error;
        EXPECT_TRUE(error.ends_with("; allow " + SdpaBackendNames(takes) + " in SdpaBackends")) << error;
      }
}

// The preferred backend is asked first, unless the scope leaves it out.
TEST_F(AttentionChoice, TheScopeWinsOverNumerics) {
  context_.set_numerics({.attention = "plain"});
  options_ = {{"backends", int64_t(0b010)}};
  EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16),
            "flash (plain: SdpaBackends leaves it out; cudnn: SdpaBackends leaves it out)");
}

// Without a device the choice by time is open, and the plan has room for each contender.
TEST_F(AttentionChoice, APlanLeavesTheChoiceByTimeOpen) {
  tokens_ = 8192;
  for (Op op : {Op::kSdpa, Op::kSdpaGrad})
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      size_t most = 0;
      for (const char* backend : {"cudnn", "flash"}) {
        context_.set_numerics({.deterministic = false, .attention = backend});
        most = std::max(most, Workspace(op, dtype));
      }
      context_.set_numerics({.deterministic = false});
      EXPECT_EQ(Workspace(op, dtype), most);
      if (!frontend_) continue;
      EXPECT_EQ(Explain(op, dtype), "cudnn or flash, whichever takes less time on the GPU");
      setenv("WEFT_TUNE", "0", 1);
      EXPECT_EQ(Explain(op, dtype), op == Op::kSdpa ? "cudnn" : "flash in one pass");
      unsetenv("WEFT_TUNE");
    }
  tokens_ = 16;  // so few operations that plain may be the fastest
  EXPECT_TRUE(Explain(Op::kSdpa, DType::kF32).starts_with("flash or plain, ")) << Explain(Op::kSdpa, DType::kF32);
  EXPECT_EQ(Explain(Op::kSdpa, DType::kF64).find("plain ("), 0u) << "one contender is no choice";
}

// Times that the context has count only if the order is not fixed.
TEST_F(AttentionChoice, TimesCountWithoutAFixedOrder) {
  context_.AddDevice(std::make_unique<DeviceDouble>());
  BackendTimes& times = context_.backend_times();
  for (const auto& [backend, microseconds] : {std::pair("cudnn", 5.0), {"flash", 4.0}, {"plain", 3.0}})
    times.Set(Key(Op::kSdpa, DType::kBF16), backend, microseconds);
  std::string fixed = frontend_ ? "cudnn" : "flash (" + Cudnn("") + ")";
  EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16), fixed);
  context_.set_numerics({.deterministic = false});
  EXPECT_TRUE(Explain(Op::kSdpa, DType::kBF16).starts_with("plain (3 us; "));
  tokens_ = 128;
  EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16), fixed) << "this shape has no times";
  tokens_ = 64;
  context_.set_numerics({.deterministic = false, .attention = "flash"});
  EXPECT_EQ(Explain(Op::kSdpa, DType::kBF16), "flash");
}

}  // namespace
}  // namespace weft::test
