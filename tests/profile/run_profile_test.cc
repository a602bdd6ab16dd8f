// Timed runs of a program: results do not change, times are in order, and costs count what a rank holds. They also run
// on a GPU, where timestamps are events.
#include "weft/core/compile/run_profile.h"

#include <gtest/gtest.h>

#include "parallel/testing.h"
#include "weft/core/compile/call_cost.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

constexpr DType kF32 = DType::kF32;
const MeshShape kOne{{"x"}, {1}};

// A product, a norm, and an entry that grows with each run. The entry's old value is an output, which needs a copy.
test::Traced Program() {
  Sharding whole(1);
  Var w = ParameterLeaf("w", kF32, {4, 6}, whole);
  Var x = Leaf("x", kF32, {5, 4}, whole);
  Var y = Einsum("ab,bc->ac", x, w);
  Var gain = ParameterLeaf("gain", kF32, {6}, whole);
  return {{{"sum", SumAll(RmsNorm(y, gain, 1e-5))}, {"old", w}}, {{"w", w + w}}};
}

struct Timed {
  std::vector<double> sums;
  std::vector<RunProfile::Step> steps;
  size_t batches = 0;
  bool copies = false;
};

// Runs the program six times, as steps of which those in `timed` are timed.
Timed RunSixTimes(const std::vector<int>& timed) {
  Graph graph = test::Trace(Program);
  Timed result;
  test::OnRanks(kOne, [&](const Runtime& runtime) {
    std::map<std::string, Tensor> entries;
    Binder bind = [&](const std::string& name, const ValueInfo& info) {
      auto [it, fresh] = entries.try_emplace(name);
      if (fresh) it->second = test::Draw(info.shape, 3, kF32).To(runtime.memory());
      return it->second;
    };
    LocalProgram local = Lower(graph, {.mesh = kOne}, "");
    Executable program(Compile(local, runtime, ""), runtime, bind);
    RunProfile profile(runtime.memory(), {{&program, 1}}, int64_t(timed.size()));
    for (int run = 0; run < 6; run++) {
      if (std::count(timed.begin(), timed.end(), run) == 0) {
        program.Run();
      } else {
        profile.BeginStep();
        profile.Run(program);
        profile.EndStep();
      }
      result.sums.push_back(program.Output("sum").To(CpuRuntime()).Item());
    }
    result.steps = profile.Read();
    result.batches = program.batches().size();
    result.copies = !program.plan().copies.empty();
  });
  return result;
}

TEST(RunProfile, TimesEveryCallInOrderAndChangesNothing) {
  std::vector<double> want = RunSixTimes({}).sums;
  for (const std::vector<int>& timed : {std::vector{0}, {0, 1, 2, 3, 4, 5}, {2, 4}, {5}}) {
    int64_t before = SteadyNanoseconds();
    Timed got = RunSixTimes(timed);
    EXPECT_EQ(got.sums, want);
    ASSERT_EQ(got.steps.size(), timed.size());
    EXPECT_TRUE(got.copies);
    int64_t at = before - 1'000'000;  // a GPU's timestamps are mapped to the host's clock with some error
    for (const RunProfile::Step& step : got.steps) {
      ASSERT_EQ(step.runs.size(), 1u);
      ASSERT_EQ(step.runs[0].batches.size(), got.batches);
      ASSERT_TRUE(step.runs[0].copies);
      std::vector<RunProfile::Span> spans = step.runs[0].batches;
      spans.push_back(*step.runs[0].copies);
      EXPECT_GE(step.span.begin, at);
      at = step.span.begin;
      for (const RunProfile::Span& span : spans) {
        EXPECT_GE(span.begin, at);
        EXPECT_GE(span.end, span.begin);
        at = span.end;
      }
      EXPECT_GE(step.span.end, at);
      at = step.span.end;
    }
    EXPECT_LE(at, SteadyNanoseconds() + 1'000'000);
  }
}

TEST(RunProfile, OfNoStepIsEmpty) { EXPECT_TRUE(RunSixTimes({}).steps.empty()); }

// A call whose views are of whole tensors at `data`.
struct Call {
  std::vector<TensorView> in, out;
  CallCost Cost(const Node& node) const {
    KernelCall call{.attrs = &node.attrs,
                    .in = in,
                    .out = out,
                    .workspace = nullptr,
                    .workspace_bytes = 0,
                    .context = nullptr,
                    .mesh = nullptr};
    return CostOf(node, call);
  }
};

TEST(CallCost, IsOfWhatTheRankHolds) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  float data = 0;
  Var product = Einsum("ab,bc->ac", Leaf("x", kF32, {5, 4}), Leaf("w", kF32, {4, 6}));
  Call call{{MakeView(&data, kF32, {5, 4}), MakeView(&data, kF32, {4, 6})}, {MakeView(&data, kF32, {5, 6})}};
  EXPECT_EQ(call.Cost(product.node()).flops, 2.0 * 5 * 4 * 6);
  EXPECT_EQ(call.Cost(product.node()).bytes, 4 * (5 * 4 + 4 * 6 + 5 * 6));
  call.in[0].dims[0].extent = call.out[0].dims[0].extent = 3;  // the last rank of an uneven shard
  EXPECT_EQ(call.Cost(product.node()).flops, 2.0 * 3 * 4 * 6);
  EXPECT_EQ(call.Cost(product.node()).bytes, 4 * (3 * 4 + 4 * 6 + 3 * 6));
  call.in[0].dims[0].extent = call.out[0].dims[0].extent = 0;
  EXPECT_EQ(call.Cost(product.node()).flops, 0);
  EXPECT_EQ(call.Cost(product.node()).bytes, 4 * (4 * 6));

  // The repeated elements of a broadcast count once, and a shape operand counts nothing.
  Var sum = Leaf("y", kF32, {5, 6}) + Leaf("z", kF32, {5, 6});
  Call add{{MakeView(&data, kF32, {5, 6}), MakeView(&data, kF32, {5, 6})}, {MakeView(&data, kF32, {5, 6})}};
  add.in[1].dims[0].stride = 0;
  EXPECT_EQ(add.Cost(sum.node()).bytes, 4 * (30 + 6 + 30));
  EXPECT_EQ(add.Cost(sum.node()).flops, 0);
  add.in[1].data = nullptr;
  EXPECT_EQ(add.Cost(sum.node()).bytes, 4 * (30 + 30));

  // Only the rows of a table that are looked up count.
  Var rows = Embedding(Leaf("table", kF32, {100, 8}), Leaf("ids", DType::kI32, {3}));
  Call look{{MakeView(&data, kF32, {100, 8}), MakeView(&data, DType::kI32, {3})}, {MakeView(&data, kF32, {3, 8})}};
  EXPECT_EQ(look.Cost(rows.node()).bytes, 4 * (24 + 3 + 24));

  // In place, an update reads and writes its window. Elsewhere it copies the rest too.
  Var next = DynamicUpdate(Leaf("cache", kF32, {100, 8}), Leaf("u", kF32, {2, 8}), Leaf("s", DType::kI64, {}), 0);
  float other = 0;
  Call update{{MakeView(&data, kF32, {100, 8}), MakeView(&other, kF32, {2, 8}), MakeView(&other, DType::kI64, {})},
              {MakeView(&data, kF32, {100, 8})}};
  EXPECT_EQ(update.Cost(next.node()).bytes, 4 * (16 + 16) + 8);
  update.out[0].data = &other;
  EXPECT_EQ(update.Cost(next.node()).bytes, 4 * (800 + 16 + 800) + 8);
}

}  // namespace
}  // namespace weft
