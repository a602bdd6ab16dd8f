// Interpret, Plan + Executable and eager give the same results for one program, on one rank and on 2 x 2 ranks. Each
// also keeps its own promises: an Executable allocates nothing, updates in place and knows how much memory it needs;
// eager frees the values that are dropped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "heap_counter.h"
#include "parallel/testing.h"
#include "weft/core/compile/eager.h"
#include "weft/core/compile/executable.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using test::Draw;
using test::Values;
constexpr DType kF64 = DType::kF64;
const MeshShape kOne{{"dp", "tp"}, {1, 1}}, kDp2Tp2{{"dp", "tp"}, {2, 2}};

// ---- A training step: embedding, attention, MLP, loss, gradients and AdamW. ----

const std::map<std::string, std::pair<Shape, Sharding>> kParameters{
    {"embed", {{9, 4}, {Replicate(), Shard(0)}}},  {"norm", {{4}, {Replicate(), Replicate()}}},
    {"qkv", {{4, 3, 2, 2}, {Shard(0), Shard(2)}}}, {"proj", {{2, 2, 4}, {Replicate(), Shard(0)}}},
    {"up", {{4, 6}, {Shard(0), Shard(1)}}},        {"down", {{6, 4}, {Shard(1), Shard(0)}}},
};

test::Traced TrainStep() {
  std::map<std::string, Var> p;
  std::vector<Var> wrt;
  for (auto& [name, shape_placement] : kParameters) {
    p[name] = ParameterLeaf(name, kF64, shape_placement.first, shape_placement.second);
    wrt.push_back(p[name]);
  }
  Var ids = Leaf("ids", DType::kI64, {4, 5}, {Shard(0), Replicate()}),
      targets = Leaf("targets", DType::kI64, {4, 5}, {Shard(0), Replicate()});
  Var x = Embedding(p["embed"], ids);  // [B, T, C]
  Var qkv = Einsum("btc,cihd->btihd", RmsNorm(x, p["norm"], 1e-5), Reshard(p["qkv"], {Replicate(), Keep()}));
  auto head = [&](int i) { return Merge(Permute(Slice(qkv, 2, i, 1), {0, 1, 3, 2, 4}), 3); };  // [B, T, H, D]
  Var y = Sdpa(Rope(head(0), {.theta = 100.0}), Rope(head(1), {.theta = 100.0}), head(2), {});
  x = x + Dropout(Einsum("bthd,hdc->btc", y, p["proj"]), 0.2);
  Var up = Reshard(p["up"], {Replicate(), Keep()}), down = Reshard(p["down"], {Replicate(), Keep()});
  x = x + Einsum("btf,fc->btc", Gelu(Einsum("btc,cf->btf", x, up)), down);
  Var loss = SumAll(CrossEntropy(Einsum("btc,vc->btv", x, p["embed"]), targets, {.smoothing = 0.1}));
  test::Traced traced{{{"loss", loss}}};
  std::vector<Var> d = Grad(loss, wrt);
  Var updates = Leaf("updates", DType::kI64, {}), lr = Full(0.01, kF64, {}), one = Full(1.0, kF64, {});
  Var next = updates + Full(1, DType::kI64, {});
  size_t i = 0;
  for (auto& [name, shape_placement] : kParameters) {
    auto& [shape, placement] = shape_placement;
    auto out = AdamW(p[name], Leaf(name + ".m", kF64, shape, placement), Leaf(name + ".v", kF64, shape, placement),
                     d[i++], lr, one, next, {});
    traced.writes.insert(traced.writes.end(), {{name, out[0]}, {name + ".m", out[1]}, {name + ".v", out[2]}});
  }
  traced.writes.push_back({"updates", next});
  return traced;
}

Values InitialState() {
  Values state{{"updates", Tensor::Zeros(DType::kI64, {})}};
  uint64_t seed = 1;
  for (auto& [name, shape_placement] : kParameters) {
    state[name] = Draw(shape_placement.first, seed++);
    state[name + ".m"] = Tensor::Zeros(kF64, shape_placement.first);
    state[name + ".v"] = Tensor::Zeros(kF64, shape_placement.first);
  }
  std::vector<double> ids, targets;
  for (int i = 0; i < 20; i++) {
    ids.push_back((i * 7 + 3) % 9);
    targets.push_back(i == 4 ? -100 : (i * 5 + 1) % 9);
  }
  state["ids"] = Tensor::FromDoubles(ids, DType::kI64, {4, 5});
  state["targets"] = Tensor::FromDoubles(targets, DType::kI64, {4, 5});
  for (const char* name : {"step", "first_row"}) state[name] = Tensor::Zeros(DType::kI64, {});
  return state;
}

// This rank's entries. Each is created when it is first bound.
class Entries {
 public:
  Entries(const Values& global, const Runtime& runtime) : global_(global), runtime_(runtime) {}
  Tensor operator()(const std::string& name, const ValueInfo& info) {
    if (!entries_.contains(name))
      entries_[name] = test::Chunk(global_.at(name), info.sharding, runtime_.mesh_shape, runtime_.coords);
    return entries_[name];
  }
  Tensor& At(const std::string& name) { return entries_.at(name); }

 private:
  const Values& global_;
  Runtime runtime_;
  Values entries_;
};

// Returns the sharding of a parameter or of one of its moments ("up.m"). All other entries are replicated.
Sharding PlacementOf(const std::string& entry) {
  auto it = kParameters.find(entry.substr(0, entry.find('.')));
  return it == kParameters.end() ? Sharding(2) : it->second.second;
}

constexpr int kSteps = 3;
// The results of one executor: the loss of each step, and for each entry every rank's chunk after the last step.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<Tensor>> state;
};

Trained Train(const std::string& executor, const MeshShape& mesh) {
  Values initial = InitialState();
  Graph graph = test::Trace(TrainStep);
  LocalProgram local = Partition(graph, {.mesh = mesh});
  Trained trained;
  for (const NamedValue& write : graph.writes) trained.state[write.name].resize(size_t(mesh.num_ranks()));
  test::OnRanks(mesh, [&](const Runtime& runtime) {
    Entries entries(initial, runtime);
    Binder bind = [&](const std::string& name, const ValueInfo& info) { return entries(name, info); };
    std::vector<double> losses;
    if (executor == "interpret")
      for (int i = 0; i < kSteps; i++) losses.push_back(Interpret(local, runtime, bind).at("loss").Item());
    if (executor == "executable") {
      Executable executable(Compile(local, runtime, ""), runtime, bind);
      for (int i = 0; i < kSteps; i++) {
        executable.Run();
        losses.push_back(executable.Output("loss").Item());
      }
    }
    if (executor == "eager") {
      EagerBuilder eager(runtime, bind, {.seed = 7});
      BuilderScope scope(eager);
      for (int i = 0; i < kSteps; i++) {
        eager.RestartRandom();
        eager.step = Leaf("step", DType::kI64, {});
        eager.first_row = Leaf("first_row", DType::kI64, {});
        test::Traced step = TrainStep();
        losses.push_back(eager.ToLocal(step.outputs[0].value, Sharding(mesh.num_axes())).Item());
        for (const NamedValue& write : step.writes) eager.Write(write.name, write.value, PlacementOf(write.name));
      }
    }
    for (auto& [name, chunks] : trained.state) chunks[size_t(runtime.context->rank())] = entries.At(name);
    if (runtime.context->rank() == 0) trained.losses = losses;
  });
  return trained;
}

// All executors run the same kernels on the same values, so the results are bit-equal.
TEST(Executors, AgreeToTheBitOnEachMesh) {
  for (const MeshShape& mesh : {kOne, kDp2Tp2}) {
    Trained want = Train("interpret", mesh);
    Values state = InitialState();
    EXPECT_GT(want.losses[0], want.losses[2]) << "the loss falls";
    for (const char* executor : {"executable", "eager"}) {
      Trained got = Train(executor, mesh);
      EXPECT_EQ(got.losses, want.losses) << executor << " on " << ToString(mesh);
      for (auto& [name, chunks] : want.state) {
        auto whole = [&, entry = name](const std::vector<Tensor>& parts) {
          return test::Assemble(parts, state.at(entry).shape(), PlacementOf(entry), mesh);
        };
        EXPECT_EQ(test::LargestDifference(whole(got.state[name]), whole(chunks)), 0)
            << executor << " " << name << " on " << ToString(mesh);
      }
    }
  }
}

// The losses agree to 1e-11, because sums over 20 tokens run in another order. The parameters agree to 1e-9, because
// three steps of AdamW divide by the root of v and enlarge the difference.
TEST(Executors, TwoByTwoRanksTrainLikeOne) {
  Trained one = Train("executable", kOne), many = Train("executable", kDp2Tp2);
  for (int i = 0; i < kSteps; i++) EXPECT_NEAR(many.losses[size_t(i)], one.losses[size_t(i)], 1e-11 * one.losses[0]);
  for (auto& [name, shape_placement] : kParameters) {
    Tensor got = test::Assemble(many.state.at(name), shape_placement.first, shape_placement.second, kDp2Tp2);
    EXPECT_LE(test::LargestDifference(got, one.state.at(name)[0]), 1e-9) << name;
  }
}

// ---- One rank: programs, entries, and an executable over them. ----

class OneRank {
 public:
  explicit OneRank(Values entries) : entries_(std::move(entries)), context_(0, 1) {
    RegisterCpuKernels(context_.kernels(DeviceKind::kCpu));
    bind_ = [this](const std::string& name, const ValueInfo& info) {
      return entries_.try_emplace(name, Tensor::Zeros(info.dtype, info.shape)).first->second;
    };
  }
  Values Interpret(const Graph& graph) { return weft::Interpret(Partition(graph, {}), runtime(), bind_); }
  Executable Compile(const Graph& graph) {
    return Executable(MakePlan(Partition(graph, {}), runtime()), runtime(), bind_);
  }
  Runtime runtime() const { return {&context_}; }
  const Binder& bind() const { return bind_; }
  Values& entries() { return entries_; }

 private:
  Values entries_;
  Context context_;
  Binder bind_;
};

Values Cloned(const Values& values) {
  Values clones;
  for (auto& [name, value] : values) clones[name] = value.Clone();
  return clones;
}

// Runs both executors `runs` times from the same entries. Outputs and entries must be equal after each run.
void ExpectSameRuns(const Graph& graph, const Values& entries, int runs, const std::string& what) {
  OneRank a(Cloned(entries)), b(Cloned(entries));
  Executable executable = b.Compile(graph);
  for (int run = 0; run < runs; run++) {
    Values want = a.Interpret(graph);
    executable.Run();
    for (auto& [name, value] : want)
      ASSERT_EQ(test::LargestDifference(executable.Output(name), value), 0)
          << what << "\noutput " << name << " of run " << run << "\n"
          << Print(graph);
    for (auto& [name, value] : a.entries())
      ASSERT_EQ(test::LargestDifference(b.entries().at(name), value), 0)
          << what << "\nentry " << name << " after run " << run << "\n"
          << Print(graph);
  }
}

Graph Traced(const std::function<test::Traced()>& body) { return test::Trace(body); }
Var Entry(const std::string& name, const Shape& shape = {2, 3}) { return Leaf(name, kF64, shape); }

TEST(Executable, SwapsTwoEntries) {
  Graph graph = Traced([] { return test::Traced{{}, {{"a", Entry("b")}, {"b", Entry("a")}}}; });
  Values entries{{"a", Draw({2, 3}, 1)}, {"b", Draw({2, 3}, 2)}};
  ExpectSameRuns(graph, entries, 3, "swap");
  OneRank rank(Cloned(entries));
  rank.Compile(graph).Run();
  EXPECT_EQ(rank.entries().at("a").ToDoubles(), entries.at("b").ToDoubles());
}

TEST(Executable, RotatesEntriesAndUpdatesThemAtOnce) {
  Graph graph = Traced([] {
    Var a = Entry("a"), b = Entry("b"), c = Entry("c");
    return test::Traced{{{"sum", a + b}}, {{"a", b}, {"b", c * a}, {"c", a}}};
  });
  ExpectSameRuns(graph, {{"a", Draw({2, 3}, 1)}, {"b", Draw({2, 3}, 2)}, {"c", Draw({2, 3}, 3)}}, 4, "rotate");
}

// An output that is the old value of an entry stays the old value if the program also writes that entry.
TEST(Executable, AnOutputOfAnOldValueIsNotTheNewOne) {
  Graph graph = Traced([] {
    Var a = Entry("a");
    return test::Traced{{{"old", a}}, {{"a", Scale(a, 2.0)}}};
  });
  ExpectSameRuns(graph, {{"a", Draw({2, 3}, 1)}}, 3, "old value");
}

// An output that is a view of an entry has the view's shape.
TEST(Executable, AnOutputThatIsAViewOfAnEntryHasItsOwnShape) {
  Graph graph = Traced([] { return test::Traced{{{"flat", Merge(Entry("a"), 0)}}}; });
  ExpectSameRuns(graph, {{"a", Draw({2, 3}, 1)}}, 2, "view");
  OneRank rank({{"a", Draw({2, 3}, 1)}});
  Executable executable = rank.Compile(graph);
  executable.Run();
  EXPECT_EQ(executable.Output("flat").shape(), Shape{6});
}

// If an entry is read through two leaves, the write must come after both reads.
TEST(Executable, AnEntryReadThroughTwoLeavesIsOverwrittenAfterBoth) {
  Graph graph = Traced([] {
    Var first = Entry("a"), second = Entry("a"), updated = Scale(second, 3.0);
    return test::Traced{{{"y", updated + first}}, {{"a", updated}}};
  });
  ExpectSameRuns(graph, {{"a", Draw({2, 3}, 1)}}, 3, "two leaves");
}

// Entries may lie at any offset of a shared buffer, as they do in flat buckets.
TEST(Executable, EntriesAtAnOffsetOfABuffer) {
  Graph graph = Traced([] {
    Var a = Entry("a"), b = Entry("b");
    return test::Traced{{{"y", Split(Merge(a, 0), 0, 2)}, {"z", StopGradient(b)}, {"w", Merge(b, 0)}}, {{"a", a + b}}};
  });
  Values whole{{"flat", Draw({12}, 1)}};
  auto entries = [&] {
    Tensor flat = whole.at("flat").Clone();
    return Values{{"a", Tensor(flat.buffer(), 0, kF64, {2, 3})}, {"b", Tensor(flat.buffer(), 48, kF64, {2, 3})}};
  };
  OneRank interpreted(entries()), compiled(entries()), eager_rank(entries());
  Values want{{"y", Tensor(whole.at("flat").buffer(), 0, kF64, {3, 2})},
              {"z", Tensor(whole.at("flat").buffer(), 48, kF64, {2, 3})},
              {"w", Tensor(whole.at("flat").buffer(), 48, kF64, {6})}};
  Values got = interpreted.Interpret(graph);
  Executable executable = compiled.Compile(graph);
  executable.Run();
  EagerBuilder eager(eager_rank.runtime(), eager_rank.bind());
  BuilderScope scope(eager);
  Var b = eager.FromLocal(eager_rank.entries().at("b"), {2, 3}, {});
  EXPECT_EQ(eager.ToLocal(Merge(b, 0), {}).ToDoubles(), want.at("w").ToDoubles());
  for (auto& [name, value] : want) {
    EXPECT_EQ(got.at(name).ToDoubles(), value.ToDoubles()) << "interpret " << name;
    EXPECT_EQ(executable.Output(name).ToDoubles(), value.ToDoubles()) << "executable " << name;
  }
  EXPECT_EQ(interpreted.entries().at("a").ToDoubles(), compiled.entries().at("a").ToDoubles());
}

// One of the ops of the random programs, which keeps the shape [2, 3].
Var RandomOp(uint64_t number, const Var& x, const Var& y) {
  switch (number) {
    case 0:
      return x + y;
    case 1:
      return x * y;
    case 2:
      return Tanh(x);
    case 3:
      return Scale(x, 0.5);
    case 4:
      return Broadcast(ReduceSum(x, 0), 0, 2);
    case 5:
      return Split(Merge(x, 0), 0, 3);
    case 6:
      return Permute(Permute(x, {1, 0}), {1, 0});
    case 7:
      return StopGradient(x);
    default:
      return Softmax(x, 1);
  }
}

// Random programs over four entries, made of elementwise ops, broadcasts, views and reductions. Any value may be an
// output or a write.
TEST(Executable, RandomProgramsEqualTheInterpreters) {
  for (uint64_t seed = 0; seed < 400; seed++) {
    std::mt19937_64 rng(seed);
    Graph graph = Traced([&] {
      std::vector<Var> values;
      const std::string names[] = {"a", "b", "c", "d"};
      for (const std::string& name : names) values.push_back(Entry(name));
      auto any = [&] { return values[rng() % values.size()]; };
      for (int i = 0; i < 12; i++) {
        Var x = any(), y = any();
        values.push_back(RandomOp(rng() % 9, x, y));
      }
      test::Traced traced;
      for (int i = 0; i < 3; i++) traced.outputs.push_back({fmt::format("y{}", i), any()});
      for (const std::string& name : names)
        if (rng() % 4) traced.writes.push_back({name, any()});
      return traced;
    });
    ExpectSameRuns(graph,
                   {{"a", Draw({2, 3}, 1)}, {"b", Draw({2, 3}, 2)}, {"c", Draw({2, 3}, 3)}, {"d", Draw({2, 3}, 4)}}, 3,
                   fmt::format("seed {}", seed));
    if (HasFatalFailure()) return;
  }
}

TEST(Executable, UpdatesInPlace) {
  Graph graph = Traced([] {
    Var p = Entry("p"), m = Entry("m"), v = Entry("v"), scalar = Full(0.5, kF64, {});
    auto out = AdamW(p, m, v, p * p, scalar, scalar, Full(1, DType::kI64, {}), {});
    return test::Traced{{}, {{"p", out[0]}, {"m", out[1]}, {"v", out[2]}}};
  });
  OneRank rank({{"p", Draw({2, 3}, 1)}, {"m", Draw({2, 3}, 2)}, {"v", Tensor::Zeros(kF64, {2, 3})}});
  Plan plan = MakePlan(Partition(graph, {}), rank.runtime());
  EXPECT_TRUE(plan.copies.empty());
  for (const PlannedView& out : plan.steps.back().out) EXPECT_EQ(out.place.kind, Place::kEntry);
}

size_t SumOfValues(const LocalProgram& program) {
  size_t bytes = 0;
  for (const auto& node : program.graph.nodes)
    if (node->op != Op::kLeaf)
      for (const ValueInfo& info : node->outputs) bytes += BytesOf(info);
  return bytes;
}

// A chain needs memory for two values, whatever its length. A training step needs less than two thirds of the sum of
// its values.
TEST(Plan, TheArenaHoldsWhatLivesAtOnce) {
  Graph chain = Traced([] {
    Var x = Entry("a", {64, 64});
    for (int i = 0; i < 50; i++) x = Tanh(x);
    return test::Traced{{{"y", x}}};
  });
  OneRank rank({});
  EXPECT_LE(MakePlan(Partition(chain, {}), rank.runtime()).arena_bytes, size_t(2 * 64 * 64 * 8));
  LocalProgram step = Partition(test::Trace(TrainStep), {.mesh = kOne});
  Runtime runtime = rank.runtime();
  runtime.mesh_shape = kOne;
  runtime.coords = {0, 0};
  EXPECT_LT(MakePlan(step, runtime).arena_bytes, SumOfValues(step) * 2 / 3);
}

// Once it is bound, an executable runs a step without allocating a buffer or heap memory.
TEST(Executable, RunAllocatesNothing) {
  Values initial = InitialState();
  LocalProgram local = Partition(test::Trace(TrainStep), {.mesh = kOne});
  OneRank rank(Cloned(initial));
  Runtime runtime = rank.runtime();
  runtime.mesh_shape = kOne;
  runtime.coords = {0, 0};
  Executable executable(MakePlan(local, runtime), runtime, rank.bind());
  executable.Run();  // the first runs let libraries initialize
  executable.Run();
  size_t buffers = CpuBuffersAllocated();
  long heap = test::HeapAllocations();
  for (int i = 0; i < 3; i++) executable.Run();
  EXPECT_EQ(CpuBuffersAllocated(), buffers);
  EXPECT_EQ(test::HeapAllocations(), heap);
}

TEST(Interpret, TrapsTheFirstOpThatGivesANan) {
  int line = __LINE__ + 1;
  Graph graph = Traced([] { return test::Traced{{{"y", Exp(Log(Entry("a")))}}}; });
  OneRank rank({{"a", Tensor::FromDoubles(std::vector<double>{1, -1, 1, 1, 1, 1}, kF64, {2, 3})}});
  try {
    Interpret(Partition(graph, {}), rank.runtime(), rank.bind(), {.trap_nan = true});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), fmt::format("log at executors_test.cc:{}: gave a NaN, f64 [2, 3]", line));
  }
}

TEST(Interpret, RefusesATensorOfAnotherShape) {
  Graph graph = Traced([] { return test::Traced{{{"y", Exp(Entry("a"))}}}; });
  OneRank rank({{"a", Draw({3, 2}, 1)}});
  EXPECT_THROW(rank.Interpret(graph), Error);
  EXPECT_THROW(rank.Compile(graph), Error);
}

// ---- Eager: long loops. ----

constexpr int kLong = 100000;

struct LongLoop {
  const char* name;
  bool requires_grad;
  bool from_generator;
  Var (*next)(const Var& x, const Var& before);
};
const LongLoop kLoops[] = {
    {"Scale", false, false, [](const Var& x, const Var&) { return Scale(x, 1.0); }},
    {"KeptForGrad", true, false, [](const Var& x, const Var&) { return Scale(x, 1.0); }},
    {"OperandTwice", true, false, [](const Var& x, const Var&) { return x * x; }},
    {"TwoBack", true, false, [](const Var& x, const Var& before) { return x * before; }},
    {"View", true, false, [](const Var& x, const Var&) { return StopGradient(x); }},
    {"Generator", false, true, [](const Var& x, const Var&) { return AddScalar(x, 1.0); }},
};

class Eager : public testing::TestWithParam<LongLoop> {};
void PrintTo(const LongLoop& loop, std::ostream* out) { *out << loop.name; }

// The value is right, dropping the chain does not overflow the stack, and every node but the last is freed.
TEST_P(Eager, ALongLoopNeitherLeaksNorOverflowsTheStack) {
  const LongLoop& loop = GetParam();
  OneRank rank({});
  EagerBuilder eager(rank.runtime(), rank.bind());
  BuilderScope scope(eager);
  std::vector<std::weak_ptr<Node>> nodes;
  Var x = loop.from_generator
              ? Full(1.0, kF64, {2})
              : eager.FromLocal(Tensor::FromDoubles(std::vector<double>{1, 1}, kF64, {2}), {2}, {}, loop.requires_grad);
  Var before = x;
  for (int i = 0; i < kLong; i++) {
    Var next = loop.next(x, before);
    before = x;
    x = next;
    if (i % 1000 == 0) nodes.push_back(x.node_ptr());
  }
  EXPECT_EQ(eager.ToLocal(x, {}).ToDoubles()[0], loop.from_generator ? kLong + 1.0 : 1.0);
  auto alive = [&] {
    return std::count_if(nodes.begin(), nodes.end(), [](const auto& node) { return !node.expired(); });
  };
  if (!loop.requires_grad) {
    EXPECT_LE(alive(), 1);
  }
  x = before = {};
  EXPECT_EQ(alive(), 0);
}

std::string LoopName(const testing::TestParamInfo<LongLoop>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Loops, Eager, testing::ValuesIn(kLoops), LoopName);

// The backward pass of a long chain is a loop too, so it does not overflow the stack.
TEST(EagerGrad, OfALongChain) {
  OneRank rank({});
  EagerBuilder eager(rank.runtime(), rank.bind());
  BuilderScope scope(eager);
  Var x = eager.FromLocal(Tensor::Scalar(2.0, kF64), {}, {}, true), y = x;
  for (int i = 0; i < 20000; i++) y = y + x;
  EXPECT_EQ(eager.ToLocal(Grad(y, std::vector{x})[0], {}).Item(), 20001);
}

}  // namespace
}  // namespace weft
