// The test that every attention backend must pass. It draws problems over all head sizes, lengths, groups, masks and
// types and compares each result with the truth in f64. The error may be at most twice the error that rounding the
// factors of the products to their type causes by itself.
//
// WEFT_TEST_SHARE=n draws one nth of the seeds. With n > 1 the long sequences are left out.
#include "attention_truth.h"
#include "share.h"

namespace weft::test {
namespace {

bool OnGpu() { return KindUnderTest() == DeviceKind::kCuda; }
// A backend, and whether its sums have a fixed order. Only the gradients of cuDNN and flash depend on that.
struct Way {
  std::string backend;
  bool deterministic = true;

  std::string name() const { return backend + (deterministic ? "" : ", in any order"); }
};
// Returns the ways in order of preference. The CPU has one.
std::vector<Way> Ways() {
  return OnGpu() ? std::vector<Way>{{"cudnn", false}, {"cudnn"}, {"flash", false}, {"flash"}, {"plain"}}
                 : std::vector<Way>{{"cpu"}};
}

// While alive, makes the backend of `way` the first choice and sets whether products may use TF32.
class Prefer {
 public:
  Prefer(const Way& way, bool tf32) {
    SharedContext().set_numerics(
        {.deterministic = way.deterministic, .tf32 = tf32, .attention = OnGpu() ? way.backend : ""});
  }
  ~Prefer() { SharedContext().set_numerics({}); }
};

// One call of a kernel. Its outputs and workspace are NaN before it runs.
class Launch {
 public:
  Launch(Op op, const Problem& p, std::vector<Tensor> in, const std::vector<std::pair<DType, Shape>>& out)
      : attrs_(p.attrs()), row_(Table().Row(op)), in_(std::move(in)) {
    for (const Tensor& x : in_) in_views_.push_back(MakeView(x.data(), x.dtype(), x.shape()));
    for (auto& [dtype, shape] : out) {
      out_.push_back(Tensor::Empty(dtype, shape, device_));
      out_views_.push_back(MakeView(out_.back().data(), dtype, shape));
    }
  }
  std::vector<Tensor> Run() {
    KernelCall call = Call();
    if (row_.workspace) call.workspace_bytes = row_.workspace(call);
    BufferPtr workspace = device_.Allocate(call.workspace_bytes);
    device_.Fill(workspace->data(), 0xff, call.workspace_bytes);
    call.workspace = workspace->data();
    for (const Tensor& y : out_) device_.Fill(y.data(), 0xff, y.bytes());
    row_.run(call);
    return out_;
  }
  bool RunsBy(const std::string& backend) const {
    if (!row_.explain) return true;
    std::string answer = row_.explain(Call());  // otherwise "other (backend: why not)"
    return answer == backend || answer == backend + " in one pass";
  }

 private:
  KernelCall Call() const { return {&attrs_, in_views_, out_views_, nullptr, 0, &SharedContext(), nullptr}; }

  DeviceRuntime& device_ = SharedContext().device(KindUnderTest());
  Attrs attrs_;
  const KernelRow& row_;
  std::vector<Tensor> in_, out_;
  std::vector<TensorView> in_views_, out_views_;
};

// Returns out, lse, dq, dk and dv of one backend, or nothing if it refuses the forward or the backward pass.
std::vector<Tensor> RunWay(const Way& way, const Problem& p, const std::vector<Tensor>& x) {
  const std::string& backend = way.backend;
  Prefer prefer(way, p.type.tf32);
  DType dtype = p.type.dtype;
  Launch forward(Op::kSdpa, p, {x[0], x[1], x[2]}, {{dtype, p.query_shape()}, {AccumulateType(dtype), p.row_shape()}});
  if (!forward.RunsBy(backend)) return {};
  std::vector<Tensor> y = forward.Run();
  Launch backward(Op::kSdpaGrad, p, {x[0], x[1], x[2], y[0], y[1], x[3]},
                  {{dtype, p.query_shape()}, {dtype, p.key_shape()}, {dtype, p.key_shape()}});
  if (!backward.RunsBy(backend)) return {};
  for (const Tensor& d : backward.Run()) y.push_back(d);
  return y;
}

std::vector<char> BytesOf(const std::vector<Tensor>& tensors) {
  std::vector<char> bytes;
  for (const Tensor& t : tensors) {
    Tensor host = t.To(CpuRuntime());
    bytes.insert(bytes.end(), host.as<char>(), host.as<char>() + host.bytes());
  }
  return bytes;
}

// Draws the operands on the device. In its scope, eager ops compute the errors of results there.
class Bench {
 public:
  explicit Bench(const Problem& p)
      : builder_({.context = &SharedContext(), .device = KindUnderTest()}, {}, {.seed = p.seed}), scope_(builder_) {
    builder_.step = builder_.first_row = Full(0, DType::kI64, {});
    vars = DrawOperands(p);
    for (const Var* x : {&vars.q, &vars.k, &vars.v, &vars.dout}) tensors.push_back(builder_.ToLocal(*x, {}));
  }
  Answer AnswerOf(const std::vector<Tensor>& y) {
    Answer answer;
    for (size_t i = 0; i < y.size(); i++) answer[i] = builder_.FromLocal(y[i], y[i].shape(), {});
    return answer;
  }

  Operands vars;
  std::vector<Tensor> tensors;  // q, k, v, dout

 private:
  EagerBuilder builder_;
  BuilderScope scope_;
};

// The error that every backend may have in one of its answers.
struct Bound {
  Distance type, floor;       // of the rounding model; of f32 sums with operands of any type
  double mean = 2, tail = 2;  // factors of the model's error in the mean, and of its largest

  double rms() const { return mean * type.rms + floor.rms; }
  double max() const { return tail * type.max + floor.max; }
};

// The reasons for the bounds:
// - f32: every sum and the exponent have a few roundings of 2^-24, and the exponent's error grows with the scores. A
//   gradient of keys sums over all queries, so with few keys it is large. The largest of many errors is several sigmas
//   out, and the last rounding may cost the largest value half a unit.
// - lse: an error of lse is a relative error of each probability. If probabilities are rounded to 16 bits, that
//   rounding hides an rms error of lse of 2^-15, a sixteenth of the finer type's half unit (2^-11). It also hides a
//   largest error of 2^-13, a quarter of that unit. Tensor cores truncate sums instead of rounding them, which shifts
//   all scores of a row in one direction.
// - TF32: results are not rounded, so the largest error of a gradient comes from a row with one large probability and
//   depends on how that one is rounded. Over 300 drawn problems, two ways to round it differed by up to a factor of 1.9
//   there, and by 1.05 on average.
// - few queries: the errors of a query's gradients share one factor, the rounding of its delta. With one to eight
//   queries in all, two ways to round differ by chance, as the quotient of two means of so few squares does.
Bound BoundOf(const Problem& p, size_t i, const Var& model, const Var& truth) {
  bool is_lse = i == 1, of_keys = i > 2;
  double queries = double(p.T * p.group), f32 = 0x1p-20 * (of_keys ? std::sqrt(1 + queries / double(p.S)) : 1);
  if (is_lse && p.type.dtype != DType::kF32) return {DistanceOf(model, truth), {0x1p-15, 0x1p-13}};
  if (is_lse) return {DistanceOf(model, truth), {4 * f32, 16 * f32}};
  double few = i < 2 ? 2 : 2 + 16 / double(p.B * p.T * p.H());
  return {DistanceOf(model, truth),
          {f32, 8 * f32 + Epsilon(p.type.dtype) * LargestOf(Abs(truth))},
          few,
          p.type.tf32 ? 2 * few : few};
}

// Per way and type: the errors of the problems that it ran, divided by their bounds.
struct Report {
  struct Line {
    int ran = 0, refused = 0;
    double rms = 0, worst_rms = 0, worst_max = 0;
    void Add(const Distance& error, const Distance& bound) {
      rms = std::max(rms, error.rms);
      worst_rms = std::max(worst_rms, error.rms / bound.rms);
      worst_max = std::max(worst_max, error.max / bound.max);
    }
  };
  std::map<std::string, Line> lines;

  ~Report() {
    for (auto& [name, line] : lines)
      std::printf("%s: ran %d, refused %d; at worst %.2f of the allowed error in the mean, %.2f of it at its largest\n",
                  name.c_str(), line.ran, line.refused, line.worst_rms, line.worst_max);
  }
};

// A query that sees no key gives exactly 0 and lse -inf. A key that no query sees has a gradient of exactly 0.
void ExpectHiddenIsZero(const Problem& p, const Answer& y) {
  if (int64_t n = p.hidden_queries()) {
    for (size_t i : {0, 2}) EXPECT_EQ(LargestOf(Abs(Slice(y[i], 1, 0, n))), 0) << kAnswerNames[i] << ": hidden queries";
    EXPECT_EQ(LargestOf(Slice(y[1], 1, 0, n)), -INFINITY) << "lse of hidden queries";
  }
  if (int64_t n = p.hidden_keys()) {
    for (size_t i : {3, 4})
      EXPECT_EQ(LargestOf(Abs(Slice(y[i], 1, p.S - n, n))), 0) << kAnswerNames[i] << ": hidden keys";
  }
}

void Check(const Problem& p, Report& report) {
  SCOPED_TRACE(ToString(p));
  Bench bench(p);
  Answer truth = ComposedAttention(p, bench.vars, DType::kF64, {DType::kF64}),
         model = ComposedAttention(p, bench.vars, DType::kF32, p.type);
  std::vector<Bound> bounds;
  for (size_t i = 0; i < truth.size(); i++) bounds.push_back(BoundOf(p, i, model[i], truth[i]));
  std::vector<char> before = BytesOf(bench.tensors);
  std::vector<Distance> cudnn(truth.size(), {0, 0});
  for (const Way& way : Ways()) {
    const std::string& backend = way.backend;
    SCOPED_TRACE(way.name());
    Report::Line& line = report.lines[way.name() + " " + Name(p.type)];
    std::vector<Tensor> tensors = RunWay(way, p, bench.tensors);
    EXPECT_TRUE(backend == "cudnn" || !tensors.empty()) << "refused";
    (tensors.empty() ? line.refused : line.ran)++;
    if (tensors.empty()) continue;
    Answer got = bench.AnswerOf(tensors);
    for (size_t i = 0; i < got.size(); i++) {
      // An error must be within the type's bound or at most 1.1 times cuDNN's error.
      Distance error = DistanceOf(got[i], truth[i]),
               allowed{std::max(bounds[i].rms(), 1.1 * cudnn[i].rms), std::max(bounds[i].max(), 1.1 * cudnn[i].max)};
      EXPECT_LE(error.rms, allowed.rms) << kAnswerNames[i] << ", root of the mean square; cudnn " << cudnn[i].rms;
      EXPECT_LE(error.max, allowed.max) << kAnswerNames[i] << ", largest; cudnn " << cudnn[i].max;
      line.Add(error, allowed);
      if (backend == "cudnn" && !way.deterministic) cudnn[i] = error;
    }
    ExpectHiddenIsZero(p, got);
  }
  EXPECT_EQ(BytesOf(bench.tensors), before) << "an operand was written";
}

// Returns the number of seeds on the device under test: `gpu` or `cpu`, reduced to this run's share.
int Seeds(int gpu, int cpu) { return std::max((OnGpu() ? gpu : cpu) / Share(), gpu >= Share() && cpu > 0 ? 1 : 0); }

class AttentionAcceptance : public testing::Test {
 protected:
  // The products of the composition take the first algorithm offered, because timing the algorithms would take longer
  // than running them.
  static void SetUpTestSuite() { setenv("WEFT_TUNE", "0", 1); }
  void CheckDrawn(uint64_t rng_seed, int seeds, const std::vector<int64_t>& lengths, int64_t longest) {
    Rng rng(rng_seed);
    Report report;
    for (int seed = 0; seed < seeds; seed++)
      for (int64_t D : kHeadSizes)
        for (ProblemType type : kProblemTypes) {
          if (type.tf32 && !OnGpu()) continue;
          Check(DrawProblem(rng, type, D, lengths, longest), report);
          if (HasFatalFailure()) return;
        }
  }
};

// 20 seeds x 6 head sizes x 4 types. Each draws one of 16 pairs of lengths x 3 groups x 4 masks x 2 scales.
TEST_F(AttentionAcceptance, ShortSequences) { CheckDrawn(201, Seeds(20, 2), {1, 127, 128, 129}, 0); }

TEST_F(AttentionAcceptance, SequencesOfAThousand) { CheckDrawn(202, Seeds(4, 0), {1, 127, 128, 129, 1000}, 1000); }

TEST_F(AttentionAcceptance, SequencesOfEightThousand) {
  if (Share() == 1) CheckDrawn(203, Seeds(1, 0), {1, 127, 128, 129, 1000, 8192}, 8192);
}

TEST_F(AttentionAcceptance, LongQueriesAndLongKeys) {
  Rng rng(204);
  Report report;
  if (OnGpu() && Share() == 1)
    for (int64_t D : kHeadSizes) Check(DrawProblem(rng, PickOf(rng, kProblemTypes), D, {8192}, 8192), report);
  // The CPU runs one problem of length 1000 with one head size.
  if (!OnGpu() && Share() == 1) Check(DrawProblem(rng, {DType::kBF16}, 64, {1000}, 1000), report);
}

void ExpectTheSameBitsInTenRuns(const Problem& p) {
  SCOPED_TRACE(ToString(p));
  Bench bench(p);
  for (const Way& way : Ways()) {
    if (!way.deterministic) continue;
    std::vector<char> first = BytesOf(RunWay(way, p, bench.tensors));
    for (int run = 1; run < 10; run++)
      ASSERT_EQ(BytesOf(RunWay(way, p, bench.tensors)), first) << way.name() << ", run " << run;
  }
}

TEST_F(AttentionAcceptance, TenRunsHaveTheSameBits) {
  Rng rng(205);
  for (int seed = 0; seed < Seeds(2, 1); seed++)
    for (int64_t D : kHeadSizes)
      for (ProblemType type : kProblemTypes) {
        if (type.tf32 && !OnGpu()) continue;
        ExpectTheSameBitsInTenRuns(OnGpu() && Share() == 1 ? DrawProblem(rng, type, D, {129, 1000}, 1000)
                                                           : DrawProblem(rng, type, D, {1, 127, 128, 129}));
      }
}

// So much work that each multiprocessor gets several parts of it, which depend on what others do at the same time.
TEST_F(AttentionAcceptance, TenLargeRunsHaveTheSameBits) {
  if (!OnGpu()) GTEST_SKIP() << "needs a GPU: WEFT_TEST_DEVICE=cuda";
  for (int64_t D : {64, 128})
    for (int64_t group : {1, 4})
      for (bool causal : {true, false})
        ExpectTheSameBitsInTenRuns({.B = 4,
                                    .T = 1000,
                                    .S = 1000,
                                    .G = 16 / group,
                                    .group = group,
                                    .D = D,
                                    .causal = causal,
                                    .offset = 0,
                                    .scale = 0,
                                    .type = {DType::kBF16},
                                    .seed = 207});
}

}  // namespace
}  // namespace weft::test
