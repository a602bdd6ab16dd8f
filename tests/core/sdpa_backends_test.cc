// SdpaBackends: scopes nest and belong to a thread, every call and its gradient record the set, and the CPU runs
// exactly the calls that allow its only backend, in every executor. attention_choice_test has the backends of GPUs.
#include "weft/core/ops/sdpa_backends.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/compile/eager.h"
#include "weft/core/compile/executable.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft {
namespace {

using enum SdpaBackend;

std::vector<SdpaBackend> ListOf(int64_t set) {
  std::vector<SdpaBackend> list;
  for (int i = 0; i < kNumSdpaBackends; i++)
    if (set >> i & 1) list.push_back(SdpaBackend(i));
  return list;
}
int64_t SetOf(const Node& node) { return node.attrs.IntOr("backends", kAllSdpaBackends); }
Var Input(const char* name) { return Leaf(name, DType::kF32, {2, 3, 2, 4}); }

TEST(SdpaBackends, NestAndRestore) {
  EXPECT_EQ(SdpaBackends::Current(), kAllSdpaBackends);
  for (int64_t outer = 1; outer <= kAllSdpaBackends; outer++) {
    SdpaBackends scope(ListOf(outer));
    EXPECT_EQ(SdpaBackends::Current(), outer);
    for (int64_t inner = 1; inner <= kAllSdpaBackends; inner++) {
      SdpaBackends replaces(ListOf(inner));
      EXPECT_EQ(SdpaBackends::Current(), inner) << "it is not the intersection, as for PyTorch's sdpa_kernel";
    }
    EXPECT_EQ(SdpaBackends::Current(), outer);
    EXPECT_THROW(
        {
          SdpaBackends thrown_out_of({kPlain});
          Fail("out");
        },
        Error);
    EXPECT_EQ(SdpaBackends::Current(), outer);
  }
  EXPECT_EQ(SdpaBackends::Current(), kAllSdpaBackends);
}

TEST(SdpaBackends, BelongToAThread) {
  SdpaBackends scope({kFlash});
  std::thread([] {
    EXPECT_EQ(SdpaBackends::Current(), kAllSdpaBackends);
    SdpaBackends other({kPlain});
  }).join();
  EXPECT_EQ(SdpaBackends::Current(), int64_t(1) << int(kFlash));
}

TEST(SdpaBackends, AnEmptyListIsRefused) {
  int line = __LINE__ + 1;
  std::string text = test::ErrorOf([] { SdpaBackends none(std::initializer_list<SdpaBackend>{}); });
  EXPECT_EQ(text, fmt::format("SdpaBackends at sdpa_backends_test.cc:{}: expected at least one of cudnn, flash and "
                              "plain, got none",
                              line));
  EXPECT_EQ(SdpaBackends::Current(), kAllSdpaBackends);
}

// The gradient is built outside of the scopes, and has the set of its call.
TEST(SdpaBackends, EachCallRecordsItsSet) {
  std::vector<int64_t> sets;
  Graph graph = test::Trace([&]() -> test::Traced {
    Var q = Input("q"), k = Input("k"), v = Input("v"), y = q;
    for (int64_t set = 1; set <= kAllSdpaBackends; set++) {
      SdpaBackends scope(ListOf(set));
      y = Sdpa(y, k, v, {});  // [B, T, H, D]
      sets.push_back(set);
    }
    y = Sdpa(y, k, v, {});  // [B, T, H, D]
    sets.push_back(kAllSdpaBackends);
    SdpaBackends of_the_gradient({kPlain});
    return {{{"dq", Grad(SumAll(y), {q})[0]}}};
  });
  std::vector<int64_t> forward, backward;
  for (const auto& node : graph.nodes) {
    if (node->op == Op::kSdpa) forward.push_back(SetOf(*node));
    if (node->op == Op::kSdpaGrad) backward.insert(backward.begin(), SetOf(*node));
  }
  EXPECT_EQ(forward, sets);
  EXPECT_EQ(backward, sets);
}

// A call without a scope has no attribute, so programs without scopes are those of before.
TEST(SdpaBackends, WithoutAScopeThereIsNoAttribute) {
  Graph graph = test::Trace([&]() -> test::Traced { return {{{"y", Sdpa(Input("q"), Input("k"), Input("v"), {})}}}; });
  EXPECT_EQ(Print(graph).find("backends="), std::string::npos);
}

using Executor = std::vector<Tensor> (*)(const Runtime& runtime, const std::function<test::Traced()>& body);
Tensor Bound(const std::string& name, const ValueInfo& info) {
  return test::Draw(info.shape, uint64_t(name[0]), info.dtype);
}
std::vector<Tensor> RunEagerly(const Runtime& runtime, const std::function<test::Traced()>& body) {
  EagerBuilder eager(runtime, Bound);
  BuilderScope scope(eager);
  std::vector<Tensor> results;
  for (const NamedValue& out : body().outputs) results.push_back(eager.ToLocal(out.value, Sharding(1)));
  return results;
}
std::vector<Tensor> RunInterpreted(const Runtime& runtime, const std::function<test::Traced()>& body) {
  auto values = Interpret(Lower(test::Trace(body), {.mesh = runtime.mesh_shape}, ""), runtime, Bound);
  return {values.at("y"), values.at("dq")};
}
std::vector<Tensor> RunCompiled(const Runtime& runtime, const std::function<test::Traced()>& body) {
  Executable program(Compile(Lower(test::Trace(body), {.mesh = runtime.mesh_shape}, ""), runtime, ""), runtime, Bound);
  program.Run();
  return {program.Output("y").Clone(), program.Output("dq").Clone()};
}

TEST(SdpaBackends, TheCpuHasFlash) {
  test::OnRanks(test::MeshOf({1}), [](const Runtime& runtime) {
    for (Executor run : {RunEagerly, RunInterpreted, RunCompiled}) {
      int line = 0;
      auto attend = [&](int64_t set) {
        return run(runtime, [&]() -> test::Traced {
          Var q = ParameterLeaf("q", DType::kF32, {2, 3, 2, 4}), k = Input("k"), v = Input("v"), y;
          {
            std::optional<SdpaBackends> scope;
            if (set) scope.emplace(ListOf(set));
            line = __LINE__ + 1;
            y = Sdpa(q, k, v, {});  // [B, T, H, D]
          }
          return {{{"y", y}, {"dq", Grad(SumAll(y * y), {q})[0]}}};
        });
      };
      std::vector<Tensor> want = attend(0);
      for (int64_t set = 1; set <= kAllSdpaBackends; set++) {
        std::vector<Tensor> got;
        std::string text = test::ErrorOf([&] { got = attend(set); });
        if (set >> int(kFlash) & 1) {
          EXPECT_EQ(text, "");
          ASSERT_EQ(got.size(), want.size());
          for (size_t i = 0; i < got.size(); i++) EXPECT_EQ(test::LargestDifference(got[i], want[i]), 0);
          continue;
        }
        std::string reasons;
        for (SdpaBackend backend : ListOf(set))
          reasons += fmt::format("{}{}: it has kernels for GPUs only", reasons.empty() ? "" : "; ", Name(backend));
        EXPECT_EQ(text,
                  fmt::format("sdpa at sdpa_backends_test.cc:{}: on the CPU no backend of {} takes q f32 [2, 3, "
                              "2, 4], k f32 [2, 3, 2, 4] and v f32 [2, 3, 2, 4] ({}); allow flash in SdpaBackends",
                              line, SdpaBackendNames(set), reasons));
      }
    }
  });
}

}  // namespace
}  // namespace weft
