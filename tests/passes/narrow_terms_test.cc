// A product whose terms cross ranks as bf16 writes them in bf16, and the sums have the same bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "parallel/testing.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/ops.h"
#include "weft/core/passes/fuse.h"

namespace weft {
namespace {

using test::Draw;
using test::Traced;

const Shape kX{8, 3, 5}, kDy{8, 3, 6};

enum class Readers { kSum, kSumAndOutput, kSumOfTwo };

// The gradient [5, 6] of a weight, of which each rank of the batch gets a shard of `dim` of the sum.
Traced Gradient(DType dtype, int dim, Readers readers) {
  Sharding batch{Shard(0)}, stored{Shard(dim)};
  Var x = Leaf("x", dtype, kX, batch), dy = Leaf("dy", dtype, kDy, batch);
  Var dw = EmitOne(Op::kEinsum, {{"eq", "btc,btn->cn"}, {"wide", 1}}, {x, dy}, Loc::current());
  if (readers == Readers::kSumOfTwo)
    dw = dw + EmitOne(Op::kEinsum, {{"eq", "btc,btn->cn"}, {"wide", 1}}, {x, dy}, Loc::current());
  Traced traced{{{"sum", Reshard(dw, stored, DType::kBF16)}}};
  if (readers == Readers::kSumAndOutput) traced.outputs.push_back({"plain", Reshard(dw, Sharding{Replicate()})});
  return traced;
}

// Returns the type of the terms that the program's reduce_scatter gets.
DType TermsOf(const LocalProgram& program) {
  for (const auto& node : program.graph.nodes)
    if (node->op == Op::kReduceScatter) return node->inputs[0].dtype();
  ADD_FAILURE() << "no reduce_scatter:\n" << Print(program.graph);
  return DType::kF64;
}

void Check(DType dtype, Readers readers, DType terms) {
  for (int ranks : {2, 3, 4})
    for (int dim : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} dim {} on {} ranks", Name(dtype), dim, ranks));
      MeshShape mesh = test::MeshOf({ranks});
      LocalProgram program = Partition(test::Trace([&] { return Gradient(dtype, dim, readers); }), {.mesh = mesh});
      LocalProgram fused = Fuse(program, test::KernelsOf(DeviceKind::kCpu));
      VerifyLocal(fused.graph, mesh);
      EXPECT_EQ(TermsOf(program), DType::kF32);
      EXPECT_EQ(TermsOf(fused), terms) << Print(fused.graph);
      test::Values leaves{{"x", Draw(kX, 1, dtype)}, {"dy", Draw(kDy, 2, dtype)}};
      test::OnRanks(mesh, [&](const Runtime& runtime) {
        Binder bind = [&](const std::string& name, const ValueInfo& info) {
          return test::Chunk(leaves.at(name), info.sharding, mesh, runtime.coords);
        };
        auto want = Interpret(program, runtime, bind), got = Interpret(fused, runtime, bind);
        for (const auto& [name, value] : want) EXPECT_EQ(test::LargestDifference(got.at(name), value), 0) << name;
      });
    }
}

TEST(NarrowTerms, AreThoseOfProductsThatOnlyTheSumReads) { Check(DType::kBF16, Readers::kSum, DType::kBF16); }

TEST(NarrowTerms, LeavesOtherReadersTheWideValue) {
  Check(DType::kBF16, Readers::kSumAndOutput, DType::kF32);
  Check(DType::kBF16, Readers::kSumOfTwo, DType::kF32);
}

TEST(NarrowTerms, LeavesProductsOfWideOperands) { Check(DType::kF32, Readers::kSum, DType::kF32); }

}  // namespace
}  // namespace weft
