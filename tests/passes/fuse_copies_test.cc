// The cast of a new parameter becomes a result of its update, and gives the same bits.
#include <gtest/gtest.h>

#include "parallel/testing.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/optimizer_ops.h"
#include "weft/core/passes/fuse.h"

namespace weft {
namespace {

using test::Draw;
using test::Traced;

constexpr DType kWide = DType::kF32;
const Shape kShape{6, 4};

struct Rule {
  const char* name;
  Var (*update)(const Var& p, const Var& kept, const Var& g, const Var& scalar, const Var& updates);  // the new p
};
const Rule kRules[] = {
    {"adamw", [](const Var& p, const Var& kept, const Var& g, const Var& scalar,
                 const Var& updates) { return AdamW(p, kept, g * g, g, scalar, scalar, updates, {})[0]; }},
    {"lion", [](const Var& p, const Var& kept, const Var& g, const Var& scalar,
                const Var& updates) { return Lion(p, kept, g, scalar, scalar, updates, {})[0]; }},
    {"sgd with momentum",
     [](const Var& p, const Var& kept, const Var& g, const Var& scalar, const Var& updates) {
       return Sgd(p, kept, g, scalar, scalar, updates, {.momentum = 0.9})[0];
     }},
    {"sgd", [](const Var& p, const Var&, const Var& g, const Var& scalar,
               const Var& updates) { return Sgd(p, g, scalar, scalar, updates, 0.1); }},
};

// A parameter in `dtype` and the casts of its next value.
Traced Update(const Rule& rule, DType dtype, const std::vector<DType>& casts, const Sharding& sharding) {
  Var p = Leaf("p", dtype, kShape, sharding), kept = Leaf("kept", kWide, kShape, sharding);
  Var next = rule.update(p, kept, Leaf("g", kWide, kShape, sharding), Leaf("scalar", kWide, {}),
                         Leaf("updates", DType::kI64, {}));
  Traced traced{{{"p", next}}};
  for (DType to : casts) traced.outputs.push_back({std::string("copy in ") + Name(to), Cast(next, to)});
  return traced;
}

int CastsOf(const LocalProgram& program) {
  return int(std::ranges::count_if(program.graph.nodes, [](const auto& n) { return n->op == Op::kCast; }));
}

// `left`: the number of casts that remain.
void Check(const Rule& rule, DType dtype, const std::vector<DType>& casts, int left) {
  SCOPED_TRACE(rule.name);
  for (int ranks : {1, 2, 4})
    for (bool sharded : {false, true}) {
      MeshShape mesh = test::MeshOf({ranks});
      Sharding sharding({sharded ? Shard(0) : Replicate()});
      LocalProgram program =
          Partition(test::Trace([&] { return Update(rule, dtype, casts, sharding); }), {.mesh = mesh});
      LocalProgram fused = Fuse(program, test::KernelsOf(DeviceKind::kCpu));
      Verify(fused.graph);
      EXPECT_EQ(CastsOf(program), int(casts.size()));
      EXPECT_EQ(CastsOf(fused), left) << Print(fused.graph);
      for (int64_t updates : {0, 1}) {
        test::Values leaves{{"p", Draw(kShape, 1, dtype)},
                            {"kept", Draw(kShape, 2, kWide)},
                            {"g", Draw(kShape, 3, kWide)},
                            {"scalar", Tensor::Scalar(0.1, kWide)},
                            {"updates", Tensor::Scalar(double(updates), DType::kI64)}};
        test::OnRanks(mesh, [&](const Runtime& runtime) {
          Binder bind = [&](const std::string& name, const ValueInfo& info) {
            return test::Chunk(leaves.at(name), info.sharding, mesh, runtime.coords);
          };
          auto want = Interpret(program, runtime, bind), got = Interpret(fused, runtime, bind);
          for (const auto& [name, value] : want) EXPECT_EQ(test::LargestDifference(got.at(name), value), 0) << name;
        });
      }
    }
}

TEST(FuseCopies, OneCastOfEachParameter) {
  for (const Rule& rule : kRules)
    for (DType narrow : {DType::kBF16, DType::kF16}) Check(rule, DType::kF32, {narrow}, 0);
}
TEST(FuseCopies, LeavesASecondCast) {
  for (const Rule& rule : kRules) Check(rule, DType::kF32, {DType::kBF16, DType::kF16}, 1);
}
// The kernel computes in f32, from which a copy would be rounded once where a cast of the parameter rounds twice.
TEST(FuseCopies, LeavesACastOfARoundedParameter) {
  for (const Rule& rule : kRules) Check(rule, DType::kBF16, {DType::kF16}, 1);
}

}  // namespace
}  // namespace weft
