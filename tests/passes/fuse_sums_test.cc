// Consecutive sums over leading dims become one sum if that needs no copy, and give the same values.
#include <gtest/gtest.h>

#include "parallel/testing.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ops/ops.h"
#include "weft/core/passes/fuse.h"

namespace weft {
namespace {

using test::Draw;
using test::Traced;

constexpr int64_t T = 3, C = 4;

struct Case {
  int ranks;
  int64_t B;
  int sharded;  // the dim of x that is sharded; -1 for none
  bool broadcast;
  bool twice;  // whether another op reads the first sum
  int sums;    // how many sums remain
};

Traced Sums(const Case& c) {
  Sharding sharding({c.sharded < 0 ? Replicate() : Shard(c.sharded)});
  Var x = Leaf("x", DType::kF64, {c.B, T, C}, sharding);
  Var rows = ReduceSum(c.broadcast ? Broadcast(Leaf("row", DType::kF64, {T, C}), 0, c.B) : x, 0);  // [T, C]
  Traced traced{{{"total", ReduceSum(rows, 0)}}};                                                  // [C]
  if (c.twice) traced.outputs.push_back({"rows", rows});
  return traced;
}

int SumsOf(const LocalProgram& program) {
  return int(std::ranges::count_if(program.graph.nodes, [](const auto& n) { return n->op == Op::kReduceSum; }));
}

// The kernels of a device that fuses: those of the CPU, and a row for linear. No node here is a linear.
KernelTable FusingKernels() {
  KernelTable kernels = test::KernelsOf(DeviceKind::kCpu);
  kernels.Add(Op::kLinear, {.run = [](const KernelCall&) { Fail("linear: not expected to run"); }});
  return kernels;
}

void Check(const Case& c) {
  MeshShape mesh = test::MeshOf({c.ranks});
  LocalProgram program = Partition(test::Trace([&] { return Sums(c); }), {.mesh = mesh});
  LocalProgram fused = Fuse(program, FusingKernels());
  Verify(fused.graph);
  EXPECT_EQ(SumsOf(program), 2);
  EXPECT_EQ(SumsOf(fused), c.sums) << Print(fused.graph);
  EXPECT_EQ(SumsOf(Fuse(program, test::KernelsOf(DeviceKind::kCpu))), 2) << "a device that does not fuse";
  test::Values leaves{{"x", Draw({c.B, T, C}, 1)}, {"row", Draw({T, C}, 2)}};
  test::OnRanks(mesh, [&](const Runtime& runtime) {
    Binder bind = [&](const std::string& name, const ValueInfo& info) {
      return test::Chunk(leaves.at(name), info.sharding, mesh, runtime.coords);
    };
    auto want = Interpret(program, runtime, bind), got = Interpret(fused, runtime, bind);
    for (const auto& [name, value] : want) EXPECT_LE(test::LargestDifference(got.at(name), value), 1e-14) << name;
  });
}

TEST(FuseSums, OfDimsThatAreOneInMemory) {
  for (int ranks : {1, 2, 3})
    for (int64_t B : {1, 2, 3, 4, 5, 6})
      for (int sharded : {-1, 0, 1, 2}) {
        bool even = sharded != 0 || B % ranks == 0, whole = sharded != 1 || ranks == 1;
        SCOPED_TRACE(fmt::format("{} ranks, B {}, sharded dim {}", ranks, B, sharded));
        Check({ranks, B, sharded, false, false, even && whole ? 1 : 2});
      }
}
TEST(FuseSums, LeavesASumThatOthersRead) { Check({1, 4, -1, false, true, 2}); }
TEST(FuseSums, LeavesABroadcastWhereItIs) { Check({1, 4, -1, true, false, 2}); }

}  // namespace
}  // namespace weft
