// The operands with which attention backends are timed: a backend gets every operand of the call, with values that a
// run could have, and nothing is timed that does not fit. The device is a double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "double/kernels_double.h"
#include "error_of.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/ir/record.h"
#include "weft/core/ops/sdpa.h"
#include "weft/kernels/cuda/measure/sdpa_trial.h"

namespace weft::test {
namespace {

// The findings of the backend. Work of the double runs in its stream, one piece after the other.
struct Found {
  int runs = 0;
  std::string fault;

  void Expect(bool condition, const std::string& text) {
    if (!condition && fault.empty()) fault = text;
  }
};
Found* found = nullptr;

// Returns what all elements of an operand of integers must be. The last query sees all keys that its rules allow.
int64_t IntegerOf(const KernelCall& call, size_t i) {
  SdpaOperands at(*call.attrs, cuda::IsSdpaGrad(call) ? 6 : 3);
  int64_t queries = call.in[0].dim(1).extent, keys = call.in[1].dim(1).extent;
  if (i == size_t(at.lengths)) return keys;
  if (i == size_t(at.offsets)) return std::max<int64_t>(keys - queries, 0) - call.attrs->IntOr("causal_offset", 0);
  return 0;
}

void Inspect(const TensorView& view, size_t i, bool is_lse, int64_t integer) {
  ValueRange range = RangeOf(view);
  std::string what = fmt::format("operand {} of {}: {} to {}", i, Name(view.dtype), range.low, range.high);
  found->Expect(!range.has_nan, what + ", and NaN");
  if (view.dtype == DType::kI64)
    return found->Expect(range.low == double(integer) && range.high == double(integer),
                         what + ", expected " + fmt::to_string(integer));
  if (view.dtype == DType::kBool) return found->Expect(range.low == 1 && range.high == 1, what + ", expected true");
  if (is_lse) return found->Expect(range.low == range.high && range.low >= 0, what + ", expected one value");
  bool few = view.NumElements() < 32;  // that may all be in one half of the range
  found->Expect(range.low >= -1 && range.high <= 1, what + ", expected [-1, 1]");
  found->Expect(few || (range.low < -0.5 && range.high > 0.5), what + ", expected values all over [-1, 1]");
}

constexpr size_t kWorkspace = 1000;
void InspectAll(const KernelCall& call) {
  auto& device = static_cast<DeviceDouble&>(call.context->device(DeviceKind::kCuda));
  device.Post([kept = std::make_shared<KeptCall>(call, device)] {
    found->runs++;
    bool grad = cuda::IsSdpaGrad(kept->call);
    for (size_t i = 0; i < kept->in.size(); i++) Inspect(kept->in[i], i, grad && i == 4, IntegerOf(kept->call, i));
    for (const TensorView& view : kept->out)
      std::memset(view.data, 0xff, size_t(view.CapacityElements()) * SizeOf(view.dtype));
    found->Expect(kept->call.workspace_bytes >= kWorkspace, "too small a workspace");
    std::memset(kept->call.workspace, 0xff, kept->call.workspace_bytes);
  });
}
size_t Workspace(const KernelCall&) { return kWorkspace; }
constexpr cuda::SdpaKernels kInspecting{SdpaBackend::kFlash, nullptr, Workspace, InspectAll, InspectAll};
constexpr const cuda::SdpaKernels* kTwice[] = {&kInspecting, &kInspecting};

class AttentionTrial : public testing::Test {
 protected:
  AttentionTrial() {
    context_.AddDevice(std::make_unique<DeviceDouble>(20));
    found = &found_;
  }
  ~AttentionTrial() override { found = nullptr; }

  // Times both passes of a sample of the op's record, whose operands have all kinds of options.
  std::vector<double> Time(Op op, const Sample& sample, DType dtype) {
    std::vector<TensorView> in, out;
    for (size_t i = 0; i < sample.inputs.size(); i++) {
      const SampleInput& x = sample.inputs[i];
      DType type = x.domain == Domain::kIds ? DType::kI64 : x.domain == Domain::kBool ? DType::kBool : dtype;
      if (op == Op::kSdpaGrad && i == 4) type = AccumulateType(dtype);
      in.push_back(MakeView(nullptr, type, x.shape));
    }
    const Shape &q = sample.inputs[0].shape, &v = sample.inputs[2].shape;
    Shape y{q[0], q[1], q[2], v[3]}, rows{q[0], q[1], q[2]};
    if (op == Op::kSdpa) {
      out = {MakeView(nullptr, dtype, y), MakeView(nullptr, AccumulateType(dtype), rows)};
    } else {
      out = {in[0], in[1], in[2]};
      SdpaOperands at(sample.attrs, 6);
      for (int i : {at.sinks, at.bias})
        if (i >= 0) out.push_back(in[size_t(i)]);
    }
    return cuda::TimeSdpa(kTwice, {&sample.attrs, in, out, nullptr, 0, &context_, nullptr});
  }

  Context context_{0, 1};
  Found found_;
};

TEST_F(AttentionTrial, BackendsGetOperandsOfARun) {
  for (Op op : {Op::kSdpa, Op::kSdpaGrad})
    for (const Sample& sample : Record(op).samples(op))
      for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
        std::string what = fmt::format("{} {} {}", Name(op), Name(dtype), ToString(sample.attrs));
        found_ = {};
        std::vector<double> times = Time(op, sample, dtype);
        ASSERT_EQ(times.size(), 2u) << what;
        for (double time : times) EXPECT_GT(time, 0) << what;
        EXPECT_EQ(found_.fault, "") << what;
        EXPECT_GE(found_.runs, 4) << what << ": each backend runs once to load and at least once to be timed";
        EXPECT_LE(found_.runs, 2 * (2 + 6 * 20)) << what;
      }
}

TEST_F(AttentionTrial, TimesNothingThatDoesNotFit) {
  int64_t tokens = 1 << 20;
  Sample sample{{{{1024, tokens, 64, 64}}, {{1024, tokens, 64, 64}}, {{1024, tokens, 64, 64}}},
                {{"causal", true}, {"causal_offset", 0}, {"scale", 0.5}}};
  EXPECT_TRUE(Time(Op::kSdpa, sample, DType::kBF16).empty());
  EXPECT_EQ(found_.runs, 0);
}

TEST_F(AttentionTrial, ABackendsErrorPasses) {
  static constexpr cuda::SdpaKernels kBroken{SdpaBackend::kCudnn, nullptr, Workspace,
                                             [](const KernelCall&) { Fail("cuDNN says no"); }};
  static constexpr const cuda::SdpaKernels* kOne[] = {&kBroken};
  TensorView x = MakeView(nullptr, DType::kF32, {1, 4, 2, 8}), lse = MakeView(nullptr, DType::kF32, {1, 4, 2});
  std::vector<TensorView> in{x, x, x}, out{x, lse};
  Attrs attrs{{"causal", true}};
  KernelCall call{&attrs, in, out, nullptr, 0, &context_, nullptr};
  EXPECT_EQ(ErrorOf([&] { cuda::TimeSdpa(kOne, call); }), "cuDNN says no");
}

}  // namespace
}  // namespace weft::test
