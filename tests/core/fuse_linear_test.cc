// A product takes its bias, an activation and a residual with it, in this order, and gives the same values. Operands
// that the program only reads are marked.
#include <gtest/gtest.h>

#include "parallel/testing.h"
#include "weft/core/compile/fuse.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using test::Draw;
using test::Traced;

constexpr int64_t B = 3, C = 4, F = 5;

// The steps after a product of x [B, C] and w [C, F], each with its letter: b a bias, r a residual, g, e, s, k an
// activation (gelu, gelu_exact, silu, relu), ! an output that reads the value so far.
Traced Chain(const std::string& steps) {
  Sharding one(1);
  Var x = Exp(Leaf("x", DType::kF64, {B, C}, one));                     // [B, C]
  Var y = Einsum("bc,cf->bf", x, Leaf("w", DType::kF64, {C, F}, one));  // [B, F]
  Traced traced;
  for (char step : steps) {
    if (step == 'b') y = y + Broadcast(Leaf("bias", DType::kF64, {F}, one), 0, B);
    if (step == 'r') y = y + Leaf("residual", DType::kF64, {B, F}, one);
    if (step == 'g') y = Gelu(y);
    if (step == 'e') y = GeluExact(y);
    if (step == 's') y = Silu(y);
    if (step == 'k') y = Relu(y);
    if (step == '!') traced.outputs.push_back({"early", y});
  }
  traced.outputs.push_back({"y", y});
  return traced;
}

// The kernels of a device that fuses. Linear runs as its fallback.
KernelTable FusingKernels() {
  KernelTable kernels = test::KernelsOf(DeviceKind::kCpu);
  kernels.Add(Op::kLinear, {.run = [](const KernelCall&) { Fail("linear: not expected to run"); }});
  return kernels;
}

LocalProgram ProgramOf(const std::function<Traced()>& body) {
  return Partition(test::Trace(body), {.mesh = test::MeshOf({1})});
}

// Returns the nodes of a program that compute, apart from leaves and broadcasts: "exp linear(gelu)".
std::string Computing(const LocalProgram& program) {
  std::string text;
  for (const auto& node : program.graph.nodes) {
    if (node->op == Op::kLeaf || node->op == Op::kBroadcast) continue;
    std::string kind;
    for (const Attrs::Item& item : node->attrs.items())
      if (std::string_view(item.name) == "kind") kind = fmt::format("({})", std::get<std::string>(item.value));
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", Name(node->op), kind);
  }
  return text;
}

TEST(FuseLinear, TakesWhatFollowsInItsOrder) {
  const std::pair<const char*, const char*> cases[] = {{"", "exp einsum"},
                                                       {"b", "exp linear"},
                                                       {"bg", "exp linear(gelu)"},
                                                       {"be", "exp linear(gelu_exact)"},
                                                       {"s", "exp linear(silu)"},
                                                       {"bkr", "exp linear(relu)"},
                                                       {"rg", "exp linear gelu"},
                                                       {"gb", "exp linear(gelu) add"},
                                                       {"gs", "exp linear(gelu) silu"},
                                                       {"b!g", "exp linear gelu"},
                                                       {"bg!r", "exp linear(gelu) add"}};
  for (auto [steps, want] : cases) {
    SCOPED_TRACE(steps);
    LocalProgram program = ProgramOf([&, chain = steps] { return Chain(chain); });
    LocalProgram fused = Fuse(program, FusingKernels());
    Verify(fused.graph);
    EXPECT_EQ(Computing(fused), want);
    test::Values leaves{
        {"x", Draw({B, C}, 1)}, {"w", Draw({C, F}, 2)}, {"bias", Draw({F}, 3)}, {"residual", Draw({B, F}, 4)}};
    test::OnRanks(test::MeshOf({1}), [&](const Runtime& runtime) {
      Binder bind = [&](const std::string& name, const ValueInfo&) { return leaves.at(name); };
      auto want_values = Interpret(program, runtime, bind), got = Interpret(fused, runtime, bind);
      for (const auto& [name, value] : want_values)
        EXPECT_LE(test::LargestDifference(got.at(name), value), 1e-14) << name;
    });
  }
}

// Returns the attribute `parameter` of the first product.
int64_t Marks(const std::function<Traced()>& body) {
  LocalProgram fused = Fuse(ProgramOf(body), FusingKernels());
  for (const auto& node : fused.graph.nodes)
    if (node->op == Op::kEinsum || node->op == Op::kLinear) return node->attrs.IntOr("parameter", 0);
  return -1;
}

TEST(FuseLinear, MarksOperandsThatAreOnlyRead) {
  EXPECT_EQ(Marks([] { return Chain(""); }), 2);
  EXPECT_EQ(Marks([] { return Chain("br"); }), 2 + 4 + 8);
  Sharding one(1);
  EXPECT_EQ(Marks([&] {
              Traced traced = Chain("b");
              traced.writes.push_back({"w", Leaf("new", DType::kF64, {C, F}, one)});
              return traced;
            }),
            4)
      << "the program writes w";
  EXPECT_EQ(Marks([&] {
              Var x = Leaf("x", DType::kF64, {B, C}, one), w = Leaf("w", DType::kF64, {C, F}, one);
              return Traced{{{"y", Einsum("bc,cf->bf", x, w)}}};
            }),
            0)
      << "no kernel of the program comes before it";
}

}  // namespace
}  // namespace weft
