// A product takes its bias, an activation and a residual with it, in this order. Operands that the program only reads
// are marked. fallback_test checks what the op computes.
#include <gtest/gtest.h>

#include "fmt/ranges.h"
#include "parallel/testing.h"
#include "weft/core/ops/ops.h"
#include "weft/core/passes/fuse.h"

namespace weft {
namespace {

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

// The kernels of a device that fuses: those of the CPU, and a row for linear.
KernelTable FusingKernels() {
  KernelTable kernels = test::KernelsOf(DeviceKind::kCpu);
  kernels.Add(Op::kLinear, {.run = [](const KernelCall&) { Fail("linear: not expected to run"); }});
  return kernels;
}

LocalProgram ProgramOf(const std::function<Traced()>& body) {
  return Partition(test::Trace(body), {.mesh = test::MeshOf({1})});
}

// Returns the nodes of a program that compute, apart from leaves and broadcasts, with their activations and the leaves
// that they read: "exp[x] linear(gelu)[w bias]".
std::string Computing(const LocalProgram& program) {
  std::string text;
  for (const auto& node : program.graph.nodes) {
    if (node->op == Op::kLeaf || node->op == Op::kBroadcast) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", Name(node->op));
    for (const Attrs::Item& item : node->attrs.items())
      if (std::string_view(item.name) == "kind") text += fmt::format("({})", std::get<std::string>(item.value));
    std::vector<std::string> leaves;
    for (const Var& in : node->inputs) {
      const Node* from = &in.node();
      while (from->op == Op::kBroadcast) from = &from->inputs[0].node();
      if (from->op == Op::kLeaf) leaves.push_back(from->attrs.Text("name"));
    }
    if (!leaves.empty()) text += fmt::format("[{}]", fmt::join(leaves, " "));
  }
  return text;
}

TEST(FuseLinear, TakesWhatFollowsInItsOrder) {
  const std::pair<const char*, const char*> cases[] = {{"", "exp[x] einsum[w]"},
                                                       {"b", "exp[x] linear[w bias]"},
                                                       {"bg", "exp[x] linear(gelu)[w bias]"},
                                                       {"be", "exp[x] linear(gelu_exact)[w bias]"},
                                                       {"s", "exp[x] linear(silu)[w]"},
                                                       {"bkr", "exp[x] linear(relu)[w bias residual]"},
                                                       {"rg", "exp[x] linear[w residual] gelu"},
                                                       {"gb", "exp[x] linear(gelu)[w] add[bias]"},
                                                       {"gs", "exp[x] linear(gelu)[w] silu"},
                                                       {"b!g", "exp[x] linear[w bias] gelu"},
                                                       {"bg!r", "exp[x] linear(gelu)[w bias] add[residual]"}};
  for (auto [steps, want] : cases) {
    LocalProgram program = ProgramOf([chain = steps] { return Chain(chain); });
    LocalProgram fused = Fuse(program, FusingKernels());
    Verify(fused.graph);
    EXPECT_EQ(Computing(fused), want) << steps;
    EXPECT_EQ(Computing(Fuse(program, test::KernelsOf(DeviceKind::kCpu))).find("linear"), std::string::npos)
        << "a device that does not fuse";
  }
}

// The gradients of SwiGLU of a and b [B, F] for dy = x w^T, which is an output too if it is `read`.
Traced SwiGluGradients(bool read) {
  Sharding one(1);
  Var x = Exp(Leaf("x", DType::kF64, {B, C}, one));                      // [B, C]
  Var dy = Einsum("bc,fc->bf", x, Leaf("w", DType::kF64, {F, C}, one));  // [B, F]
  Var a = Leaf("a", DType::kF64, {B, F}, one), b = Leaf("b", DType::kF64, {B, F}, one);
  Outputs d = Emit(Op::kSwiGluGrad, {}, {a, b, dy}, Loc::current());
  Traced traced{.outputs = {{"da", d[0]}, {"db", d[1]}}};
  if (read) traced.outputs.push_back({"dy", dy});
  return traced;
}

TEST(FuseLinear, TakesTheGradientOfSwiGlu) {
  KernelTable kernels = FusingKernels();
  LocalProgram single = ProgramOf([] { return SwiGluGradients(false); }),
               read = ProgramOf([] { return SwiGluGradients(true); });
  EXPECT_EQ(Computing(Fuse(single, kernels, {.activation_grads = true})), "exp[x] einsum[w] swiglu_grad[a b]")
      << "no kernel";
  kernels.Add(Op::kLinearSwiGluGrad, {.run = [](const KernelCall&) { Fail("not expected to run"); }});
  EXPECT_EQ(Computing(Fuse(single, kernels, {.activation_grads = true})), "exp[x] linear_swiglu_grad[w a b]");
  EXPECT_EQ(Computing(Fuse(single, kernels)), "exp[x] einsum[w] swiglu_grad[a b]") << "nobody asks for it";
  EXPECT_EQ(Computing(Fuse(read, kernels, {.activation_grads = true})), "exp[x] einsum[w] swiglu_grad[a b]");
}

TEST(FuseLinear, TakesTheGradientOfGelu) {
  auto body = [] {
    Sharding one(1);
    Var x = Exp(Leaf("x", DType::kF64, {B, C}, one));                      // [B, C]
    Var dy = Einsum("bc,fc->bf", x, Leaf("w", DType::kF64, {F, C}, one));  // [B, F]
    return Traced{.outputs = {{"da", GeluGrad(dy, Leaf("a", DType::kF64, {B, F}, one))}}};
  };
  KernelTable kernels = FusingKernels();
  LocalProgram program = ProgramOf(body);
  EXPECT_EQ(Computing(Fuse(program, kernels, {.activation_grads = true})), "exp[x] einsum[w] gelu_grad[a]");
  kernels.Add(Op::kLinearGeluGrad, {.run = [](const KernelCall&) { Fail("not expected to run"); }});
  EXPECT_EQ(Computing(Fuse(program, kernels, {.activation_grads = true})), "exp[x] linear_gelu_grad[w a]");
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
