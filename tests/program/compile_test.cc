// Compiled functions: eager = interpret = compiled = one rank, state written, one trace per signature, and what a trace
// refuses, with its line.
#include "weft/parallel/program/compile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "dtensor/dtensor_testing.h"
#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/nn/layers/layers.h"

namespace weft {
namespace {

using test::Draw;
using test::LargestDifference;
using test::OnBareMesh;
using test::Rank;

constexpr ExecutorKind kExecutors[] = {ExecutorKind::kEager, ExecutorKind::kInterpret, ExecutorKind::kCompiled};

// x [6, 4] and y [4, 5] are arguments, w [4, 5] and n (a counter) entries.
struct SmallFunction {
  const char* name;
  std::vector<Var> (*fn)(State& s, const Var& x, const Var& y);
};
std::vector<Var> Updated(State& s, const Var& x, const Var& y, double lr) {
  Var w = s.Read("w");
  Var loss = SumAll(Tanh(Einsum("bi,io->bo", x, w)) * Einsum("bi,io->bo", x, y));
  s.Write("w", w - lr * Grad(loss, {w})[0]);
  return {loss};
}
constexpr SmallFunction kFunctions[] = {
    {"identity", [](State&, const Var& x, const Var&) { return std::vector{x}; }},
    {"two of one",
     [](State&, const Var& x, const Var&) {
       return std::vector{x, x};
     }},
    {"add", [](State&, const Var& x, const Var&) { return std::vector{x + x}; }},
    {"numbers", [](State&, const Var& x, const Var&) { return std::vector{1 - (2 * x + 3) / 4 + 1 / (x * x + 1)}; }},
    {"unary",
     [](State&, const Var& x, const Var&) {
       return std::vector{Exp(Sin(x)), Sqrt(x * x + 1)};
     }},
    {"product", [](State&, const Var& x, const Var& y) { return std::vector{Einsum("bi,io->bo", x, y)}; }},
    {"sum of a product",
     [](State&, const Var& x, const Var& y) { return std::vector{SumAll(Einsum("bi,io->bo", x, y))}; }},
    {"sum over a dim",
     [](State&, const Var& x, const Var&) {
       return std::vector{ReduceSum(x, 0), ReduceSum(x, 1)};
     }},
    {"maximum",
     [](State&, const Var& x, const Var&) {
       return std::vector{ReduceMax(x, 0), Maximum(x, -x)};
     }},
    {"select", [](State&, const Var& x, const Var&) { return std::vector{Select(x > -x, x, Exp(x))}; }},
    {"permute",
     [](State&, const Var& x, const Var&) {
       return std::vector{Permute(x, {1, 0})};
     }},
    {"slice", [](State&, const Var& x, const Var&) { return std::vector{Slice(x, 0, 1, 4)}; }},
    {"reshard",
     [](State&, const Var& x, const Var&) {
       return std::vector{Reshard(x, Sharding({Shard(1), Keep()})) * 2};
     }},
    {"read", [](State& s, const Var& x, const Var&) { return std::vector{Einsum("bi,io->bo", x, s.Read("w"))}; }},
    {"write",
     [](State& s, const Var&, const Var& y) {
       s.Write("w", s.Read("w") + y);
       return std::vector{s.Read("w")};
     }},
    {"write what is not read",
     [](State& s, const Var&, const Var& y) {
       s.Write("w", RandomNormal(y.dtype(), y.shape()) + y);
       return std::vector{y};
     }},
    {"write twice",
     [](State& s, const Var&, const Var& y) {
       Var before = s.Read("w");
       s.Write("w", before + y);
       s.Write("w", s.Read("w") * s.Read("w"));
       return std::vector{before, s.Read("w")};
     }},
    {"counter",
     [](State& s, const Var&, const Var&) {
       s.Write("n", s.Read("n") + Full(1, DType::kI64, {}));
       return std::vector{s.Read("n")};
     }},
    {"gradient",
     [](State&, const Var& x, const Var& y) {
       return Grad(SumAll(Tanh(Einsum("bi,io->bo", x, y))), {x, y});
     }},
    {"second gradient",
     [](State&, const Var& x, const Var&) {
       Var first = Grad(SumAll(Exp(x) * x), {x})[0];
       return Grad(SumAll(first * first), {x});
     }},
    {"descent", [](State& s, const Var& x, const Var& y) { return Updated(s, x, y, 0.1); }},
    {"random", [](State&, const Var& x, const Var&) { return std::vector{x + RandomNormal(x.dtype(), x.shape())}; }},
    {"no argument read", [](State& s, const Var&, const Var&) { return std::vector{Exp(s.Read("w"))}; }},
};

struct Outcome {
  std::vector<Tensor> values;  // of three calls, then the entries
};
// Three calls: the state continues, and random numbers differ.
Outcome RunThrice(const SmallFunction& f, Rank rank, const std::array<Sharding, 3>& placed, ExecutorKind executor) {
  State state(rank.mesh, {.seed = 5});
  state.Add("w", DType::kF64, {4, 5}, placed[2], true);
  state.Add("n", DType::kI64, {}, {}, true);
  EagerScope eager(rank.mesh);
  DTensor x = DistributeTensor(Draw({6, 4}, 1), rank.mesh, placed[0]);
  DTensor y = DistributeTensor(Draw({4, 5}, 2), rank.mesh, placed[1]);
  auto step = Compile([&](Var a, Var b) { return f.fn(state, a, b); }, state, {.executor = executor, .name = f.name});
  Outcome outcome;
  for (int i = 0; i < 3; i++)
    for (const DTensor& out : step(x, y)) outcome.values.push_back(out.FullTensor());
  EXPECT_EQ(step.num_traces(), 1u) << f.name;
  for (const char* entry : {"w", "n"}) outcome.values.push_back(state.Value(entry).FullTensor());
  return outcome;
}

void ExpectSame(const Outcome& got, const Outcome& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.values.size(), want.values.size()) << what;
  for (size_t i = 0; i < want.values.size(); i++)
    EXPECT_LE(LargestDifference(got.values[i], want.values[i]), tolerance) << what << ", value " << i;
}

// On one rank, then on meshes with x, y and w placed in ways of which no two are alike.
TEST(Compile, ExecutorsAgreeOnEveryMesh) {
  std::vector<Outcome> one;
  OnBareMesh({1, 1}, [&](Rank rank) {
    Sharding r({Replicate(), Replicate()});
    for (const SmallFunction& f : kFunctions) one.push_back(RunThrice(f, rank, {r, r, r}, ExecutorKind::kInterpret));
  });
  const std::array<Sharding, 3> placements[] = {
      {Sharding({Shard(0), Replicate()}), Sharding({Replicate(), Shard(1)}), Sharding({Replicate(), Shard(1)})},
      {Sharding({Shard(0), Shard(1)}), Sharding({Replicate(), Shard(0)}), Sharding({Replicate(), Shard(0)})},
      {Sharding({Replicate(), Replicate()}), Sharding({Shard(1), Shard(1)}), Sharding({Replicate(), Replicate()})}};
  int runs = 0;
  for (std::vector<int> mesh : {std::vector{1, 1}, {2, 1}, {1, 3}, {2, 2}})
    OnBareMesh(mesh, [&](Rank rank) {
      for (const auto& placed : placements)
        for (size_t i = 0; i < std::size(kFunctions); i++)
          for (ExecutorKind executor : kExecutors) {
            Outcome got = RunThrice(kFunctions[i], rank, placed, executor);
            // Sums over ranks come in another order.
            ExpectSame(got, one[i], 1e-12, fmt::format("{}, executor {}", kFunctions[i].name, int(executor)));
            if (rank.mesh.rank() == 0) runs++;
          }
    });
  fmt::print("shown: {} functions, {} runs on meshes of 1 to 4 ranks, three executors\n", std::size(kFunctions), runs);
}

// Executors take the same steps in the same order: on one mesh the bits are the same.
TEST(Compile, ExecutorsHaveTheSameBits) {
  OnBareMesh({2, 2}, [&](Rank rank) {
    std::array<Sharding, 3> placed{Sharding({Shard(0), Replicate()}), Sharding({Replicate(), Shard(1)}),
                                   Sharding({Replicate(), Shard(1)})};
    for (const SmallFunction& f : kFunctions) {
      Outcome want = RunThrice(f, rank, placed, ExecutorKind::kEager);
      for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kCompiled})
        ExpectSame(RunThrice(f, rank, placed, executor), want, 0, f.name);
    }
  });
}

TEST(Compile, TracesOncePerDtypeShapeAndPlacement) {
  OnBareMesh({2}, [&](Rank rank) {
    State state(rank.mesh);
    EagerScope eager(rank.mesh);
    auto twice = Compile([](Var x) { return x + x; }, state);
    auto call = [&](const Shape& shape, Placement p, DType dtype) {
      Tensor full = Draw(shape, 3, dtype);
      DTensor got = twice(DistributeTensor(full, rank.mesh, {p}));
      EXPECT_EQ(got.placements(), Sharding({p}));
      EXPECT_EQ(LargestDifference(got.FullTensor(), ValueOf(DistributeTensor(full, rank.mesh, {Replicate()}) * 2.0)),
                0);
      return twice.num_traces();
    };
    EXPECT_EQ(call({4, 3}, Shard(0), DType::kF64), 1u);
    EXPECT_EQ(call({4, 3}, Shard(0), DType::kF64), 1u);
    EXPECT_EQ(call({5, 3}, Shard(0), DType::kF64), 2u);
    EXPECT_EQ(call({4, 3}, Shard(1), DType::kF64), 3u);
    EXPECT_EQ(call({4, 3}, Shard(0), DType::kF32), 4u);
    EXPECT_EQ(call({5, 3}, Shard(0), DType::kF64), 4u);
  });
}

// A trace keeps the backends of attention that were allowed when it was made, so other backends need another trace.
TEST(Compile, TracesOncePerSetOfAttentionBackends) {
  OnBareMesh({1}, [&](Rank rank) {
    State state(rank.mesh);
    auto attend = Compile([](Var x) { return Sdpa(x, x, x, {}); }, state);
    Tensor x = Draw({2, 3, 2, 4}, 3, DType::kF32);
    Tensor want = attend(x).FullTensor();
    EXPECT_EQ(attend.num_traces(), 1u);
    for (int i = 0; i < 2; i++) {
      SdpaBackends scope({SdpaBackend::kFlash});
      EXPECT_EQ(LargestDifference(attend(x).FullTensor(), want), 0);
      EXPECT_EQ(attend.num_traces(), 2u);
    }
    {
      SdpaBackends scope({SdpaBackend::kCudnn});
      EXPECT_NE(test::ErrorOf([&] { attend(x); }).find("on the CPU no backend of cudnn"), std::string::npos);
    }
    EXPECT_EQ(LargestDifference(attend(x).FullTensor(), want), 0);
    EXPECT_EQ(attend.num_traces(), 2u);
  });
}

// Results are of the caller: later calls do not change them.
TEST(Compile, TakesTensorsAndReturnsWhatTheCallerOwns) {
  OnBareMesh({2}, [&](Rank rank) {
    State state(rank.mesh);
    for (ExecutorKind executor : kExecutors) {
      auto parts = Compile([](Var x) { return std::tuple(x * 2, SumAll(x)); }, state, {.executor = executor});
      auto [a, sum] = parts(Draw({3, 2}, 1));
      Tensor before = a.FullTensor().Clone();
      auto [b, other] = parts(Draw({3, 2}, 2));
      EXPECT_EQ(LargestDifference(a.FullTensor(), before), 0);
      EXPECT_GT(LargestDifference(b.FullTensor(), before), 0);
      EXPECT_NE(sum.Item(), other.Item());
      auto pair = Compile([](Var x) { return std::pair(x, x); }, state, {.executor = executor});
      EXPECT_EQ(LargestDifference(std::get<1>(pair(before)).FullTensor(), before), 0);
    }
  });
}

TEST(Compile, ANumberIsAConstantOfTheTrace) {
  OnBareMesh({1}, [&](Rank rank) {
    State state(rank.mesh);
    double factor = 2;
    auto scaled = Compile([&](Var x) { return x * factor; }, state);
    Tensor one = Tensor::Scalar(1, DType::kF64);
    EXPECT_EQ(scaled(one).Item(), 2);
    factor = 3;
    EXPECT_EQ(scaled(one).Item(), 2);
    auto eager = Compile([&](Var x) { return x * factor; }, state, {.executor = ExecutorKind::kEager});
    EXPECT_EQ(eager(one).Item(), 3);
    factor = 4;
    EXPECT_EQ(eager(one).Item(), 4);
  });
}

// Each refusal names the line of this file and what to do.
TEST(Compile, RefusesWhatATraceCannotHold) {
  OnBareMesh({1}, [&](Rank rank) {
    State state(rank.mesh);
    state.Add("w", DType::kF64, {2}, {}, true);
    EagerScope eager(rank.mesh);
    Tensor host = Draw({2}, 1);
    DTensor there = DistributeTensor(host, rank.mesh, {Replicate()});
    Var value = there + there;
    int line = 0;
    auto refused = [&](auto fn, const char* remedy) {
      auto f = Compile(fn, state);
      std::string text = test::ErrorOf([&] { f(host); });
      EXPECT_NE(text.find(fmt::format("compile_test.cc:{}", line)), std::string::npos) << text;
      EXPECT_NE(text.find(remedy), std::string::npos) << text;
      EXPECT_EQ(f.num_traces(), 0u);
    };
    line = __LINE__ + 1;
    refused([&](Var x) { return x + host; }, "pass it as an argument, or make it an entry of the State");
    line = __LINE__ + 1;
    refused([&](Var x) { return x + value; }, "pass it as an argument, or make it an entry of the State");
    line = __LINE__ + 1;
    refused([&](Var x) { return x * SumAll(x).Item(); }, "choose with Select");
    line = __LINE__ + 1;
    refused([&](Var x) { return SumAll(x) > SumAll(-x) ? x : -x; }, "choose with Select");
    line = __LINE__ - 10;
    std::string text = test::ErrorOf([&] { Compile([&](Var x) { return x + there; }, state)(host); });
    EXPECT_NE(text.find("pass it to the traced function as an argument"), std::string::npos) << text;
    line = __LINE__ + 1;
    refused([&](Var x) { return state.Write("w", SumAll(x)), x; }, "expected f64 [2] for entry \"w\", got f64 []");
    text = test::ErrorOf([&] { state.Read("w"); });
    EXPECT_NE(text.find(fmt::format("compile_test.cc:{}", __LINE__ - 1)), std::string::npos) << text;
  });
}

// The names that exist stand in the error, with the line of the call.
TEST(State, NamesTheEntriesThatExist) {
  OnBareMesh({1}, [&](Rank rank) {
    State state(rank.mesh);
    auto expect = [&](const std::function<void()>& fn, const std::string& text) {
      std::string error = test::ErrorOf(fn);
      EXPECT_TRUE(error.starts_with("state at compile_test.cc:")) << error;
      EXPECT_TRUE(error.ends_with(text)) << error;
    };
    expect([&] { state.Read("v"); }, ": there is no entry \"v\"; the State is empty, and Add or Init adds entries");
    state.Add("weight", DType::kF64, {2}, {}, true);
    expect([&] { state.Read("weigth"); }, ": there is no entry \"weigth\"; did you mean \"weight\"?");
    expect([&] { state.Value("b"); }, ": there is no entry \"b\"; the entries are weight");
    expect([&] { state.Write("b", {}); }, ": there is no entry \"b\"; the entries are weight");
    expect([&] { state.Add("weight", DType::kF64, {2}, {}, true); },
           ": there is an entry \"weight\" already; Write gives it another value");
    for (int i = 0; i < 9; i++) state.Add(fmt::format("a{}", i), DType::kF64, {2}, {}, true);
    expect([&] { state.At("other"); }, "; the entries are a0, a1, a2, a3, a4, a5, a6, a7 and 2 more");
  });
}

TEST(State, AModelIsCalledOverOne) {
  nn::Linear linear(nullptr, "linear", "bi,io->bo", {2, 3}, {}, {});
  OnBareMesh({1}, [&](Rank rank) {
    EagerScope eager(rank.mesh);
    DTensor x = Ones({4, 2}, rank.mesh, {Replicate()});
    std::string error = test::ErrorOf([&] { linear(x); });
    EXPECT_TRUE(error.starts_with("model at compile_test.cc:")) << error;
    EXPECT_NE(error.find("a function that Compile has made, or under StateScope scope(state)"), error.npos) << error;
  });
}

// The results that a compiled function may have. A static_assert lists them for any other type.
static_assert(internal::kIsResult<Var> && internal::kIsResult<std::vector<Var>>);
static_assert(internal::kIsResult<std::pair<Var, Var>> && internal::kIsResult<std::tuple<Var, Var, Var>>);
static_assert(!internal::kIsResult<int> && !internal::kIsResult<void> && !internal::kIsResult<DTensor>);
static_assert(!internal::kIsResult<std::pair<Var, int>> && !internal::kIsResult<std::vector<double>>);

// An eager run of the same function may branch.
TEST(Compile, EagerBranches) {
  OnBareMesh({2}, [&](Rank rank) {
    State state(rank.mesh);
    auto sign = Compile([](Var x) { return x > 0 * x ? x : -x; }, state, {.executor = ExecutorKind::kEager});
    for (double v : {-2.0, 3.0}) EXPECT_EQ(sign(Tensor::Scalar(v, DType::kF64)).Item(), std::abs(v));
  });
}

TEST(Compile, RefusesArgumentsOfAnotherMesh) {
  OnBareMesh({2}, [&](Rank rank) {
    State state(rank.mesh);
    auto f = Compile([](Var x) { return x; }, state);
    EXPECT_NE(test::ErrorOf([&] { f(DTensor()); }).find("argument 0: expected a tensor, got an empty DTensor"),
              std::string::npos);
    EXPECT_NE(test::ErrorOf([&] { f(Tensor()); }).find("expected a tensor as an argument, got an empty one"),
              std::string::npos);
  });
}

// The same lines without Compile: under a StateScope writes take effect at once.
TEST(StateScope, RunsWhatIsCompiledElsewhere) {
  OnBareMesh({2}, [&](Rank rank) {
    auto train = [&](bool compiled) {
      State state(rank.mesh);
      state.Add("w", DType::kF64, {4, 5}, Sharding({Shard(1)}), true);
      Tensor x = Draw({6, 4}, 1), y = Draw({4, 5}, 2);
      auto step = [&](Var a, Var b) { return Updated(state, a, b, 0.1); };
      auto compiled_step = Compile(step, state);
      for (int i = 0; i < 3; i++) {
        if (compiled) {
          compiled_step(x, y);
        } else {
          StateScope scope(state);
          step(CurrentBuilder().Constant(x, Loc::current()), CurrentBuilder().Constant(y, Loc::current()));
        }
      }
      return state.Value("w").FullTensor();
    };
    EXPECT_EQ(LargestDifference(train(true), train(false)), 0);
  });
}

}  // namespace
}  // namespace weft
