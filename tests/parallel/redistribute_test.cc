// Every legal transition between two placements, on one and two axes, agrees with the global tensor and has the
// expected cost.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "parallel/testing.h"
#include "weft/core/compile/eager.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using test::Collectives;
using Counts = std::map<std::string, int>;

const std::vector<Placement> kPartials{Partial(), Partial(ReduceOp::kMax), Partial(ReduceOp::kMin)};

bool MixesPartials(const Sharding& s) {
  const Placement* first = nullptr;
  for (int a = 0; a < s.num_axes(); a++) {
    if (s[a].kind != Placement::kPartial) continue;
    if (first && first->reduce != s[a].reduce) return true;
    first = &s[a];
  }
  return false;
}

// Returns every sharding of a tensor of `rank` dims: per axis R, S(d), P(sum), P(max) or P(min). If two axes share a
// dim, both orders are included.
std::vector<Sharding> AllShardings(int rank, int axes) {
  std::vector<Placement> one = kPartials;
  one.push_back(Replicate());
  for (int d = 0; d < rank; d++) one.push_back(Shard(d));
  std::vector<Sharding> all;
  for (const Placement& p : one) {
    if (axes == 1) {
      all.push_back(Sharding{p});
      continue;
    }
    for (const Placement& q : one)
      if (Sharding s{p, q}; !MixesPartials(s)) all.push_back(s);
    if (p.kind == Placement::kShard) all.push_back(Sharding{Shard(p.dim, 1), Shard(p.dim, 0)});
  }
  return all;
}

// Whether the transition changes one kind of Partial into another. On an axis of one rank that is allowed, because a
// Partial means nothing there.
bool ChangesPartial(const Sharding& from, const Sharding& to, const MeshShape& mesh = test::MeshOf({2, 2})) {
  for (int a = 0; a < from.num_axes(); a++)
    if (mesh.sizes[size_t(a)] > 1 && from[a].kind == Placement::kPartial && to[a].kind == Placement::kPartial &&
        from[a].reduce != to[a].reduce)
      return true;
  return false;
}

struct Case {
  Sharding from, to;
  LocalProgram local;
  std::vector<Tensor> traced, eager;  // per rank
};

// Even, uneven, and fewer elements than ranks, down to one and to none.
const std::vector<Shape> kShapes{{12, 6}, {7, 5}, {3, 2}, {1, 4}, {0, 3}};

Case MakeCase(const Shape& shape, const Sharding& from, const Sharding& to, const MeshShape& mesh) {
  Graph graph = test::Trace([&] { return test::Traced{{{"y", Reshard(Leaf("x", DType::kF64, shape, from), to)}}}; });
  std::vector<Tensor> none(static_cast<size_t>(mesh.num_ranks()));
  return {from, to, Partition(graph, {.mesh = mesh, .natural = true}), none, none};
}

void RunCases(std::vector<Case>& cases, const Tensor& global, const MeshShape& mesh) {
  test::OnRanks(mesh, [&](const Runtime& runtime) {
    size_t rank = size_t(runtime.context->rank());
    Binder bind = [&](const std::string&, const ValueInfo& info) {
      return test::Chunk(global, info.sharding, mesh, runtime.coords);
    };
    EagerBuilder eager(runtime, bind);
    BuilderScope scope(eager);
    for (Case& c : cases) {
      c.traced[rank] = Interpret(c.local, runtime, bind).at("y");
      Tensor mine = test::Chunk(global, c.from, mesh, runtime.coords);
      c.eager[rank] = eager.ToLocal(eager.FromLocal(mine, global.shape(), c.from), c.to);
    }
  });
}

class RedistributeOn : public testing::TestWithParam<std::vector<int>> {};

TEST_P(RedistributeOn, EveryTransitionKeepsTheGlobalTensor) {
  MeshShape mesh = test::MeshOf(GetParam());
  int run = 0, refused = 0;
  for (const Shape& shape : kShapes) {
    Tensor global = test::Draw(shape, 3);
    std::vector<Case> cases;
    for (const Sharding& from : AllShardings(2, mesh.num_axes()))
      for (const Sharding& to : AllShardings(2, mesh.num_axes())) {
        if (ChangesPartial(from, to, mesh)) {
          EXPECT_THROW(MakeCase(shape, from, to, mesh), Error) << ToString(from) << " -> " << ToString(to);
          refused++;
          continue;
        }
        cases.push_back(MakeCase(shape, from, to, mesh));
      }
    RunCases(cases, global, mesh);
    for (const Case& c : cases) {
      std::string what =
          fmt::format("{} {} -> {} on {}", ToString(shape), ToString(c.from), ToString(c.to), ToString(mesh));
      // 1e-13: a sum has at most six terms of size 1.
      EXPECT_LE(test::LargestDifference(test::Assemble(c.traced, shape, c.to, mesh), global), 1e-13) << what;
      EXPECT_LE(test::LargestDifference(test::Assemble(c.eager, shape, c.to, mesh), global), 1e-13)
          << what << ", eager";
      run++;
    }
  }
  fmt::print("shown: redistribute, {}: {} transitions, {} refused\n", ToString(mesh), run, refused);
}

std::string MeshName(const testing::TestParamInfo<std::vector<int>>& info) {
  return fmt::format("mesh_{}", fmt::join(info.param, "x"));
}
INSTANTIATE_TEST_SUITE_P(All, RedistributeOn,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{3}, std::vector{4},
                                         std::vector{2, 2}, std::vector{2, 3}, std::vector{3, 2}, std::vector{1, 2}),
                         MeshName);

void ExpectSame(std::vector<Case>& cases, const Shape& shape, const MeshShape& mesh) {
  Tensor global = test::Draw(shape, 3);
  RunCases(cases, global, mesh);
  for (const Case& c : cases) {
    std::string what =
        fmt::format("{} {} -> {} on {}", ToString(shape), ToString(c.from), ToString(c.to), ToString(mesh));
    // 1e-13: a sum has at most sixteen terms of size 1.
    EXPECT_LE(test::LargestDifference(test::Assemble(c.traced, shape, c.to, mesh), global), 1e-13) << what;
    EXPECT_LE(test::LargestDifference(test::Assemble(c.eager, shape, c.to, mesh), global), 1e-13) << what << ", eager";
  }
}

// Three axes: all 4,096 pairs, on a tensor whose extents no axis divides.
TEST(Redistribute, EveryPairOnThreeAxes) {
  MeshShape mesh = test::MeshOf({2, 2, 2});
  const Shape shape{7, 5};
  std::vector<Case> cases;
  for (const Sharding& from : test::EveryPlacement(3))
    for (const Sharding& to : test::EveryPlacement(3)) cases.push_back(MakeCase(shape, from, to, mesh));
  ASSERT_EQ(cases.size(), 4096u);
  ExpectSame(cases, shape, mesh);
  fmt::print("shown: redistribute, {}: {} pairs\n", ToString(mesh), cases.size());
}

// Four axes: pairs drawn from a seed, with the axes of a dim in any order.
TEST(Redistribute, DrawnPairsOnFourAxes) {
  MeshShape mesh = test::MeshOf({2, 2, 2, 2});
  std::mt19937_64 draw(14);
  auto drawn = [&] {
    std::array<int, 4> axes{0, 1, 2, 3};
    std::shuffle(axes.begin(), axes.end(), draw);
    Sharding s(4);
    const Placement one[] = {Replicate(), Shard(0), Shard(1), Partial()};
    for (int a : axes) s.Set(a, one[draw() % 4]);
    return s;
  };
  int pairs = 0;
  for (const Shape& shape : {Shape{16, 16}, Shape{13, 9}, Shape{3, 2}, Shape{1, 20}}) {
    std::vector<Case> cases;
    for (int i = 0; i < 500; i++, pairs++) cases.push_back(MakeCase(shape, drawn(), drawn(), mesh));
    ExpectSame(cases, shape, mesh);
  }
  fmt::print("shown: redistribute, {}: {} pairs\n", ToString(mesh), pairs);
}

// One mismatch costs one collective.
TEST(Transitions, OneMismatchIsTheCollectiveOfTheTable) {
  struct Row {
    Placement from, to;
    Counts want;
  };
  for (const Placement& p : kPartials) {
    const Row rows[] = {{Shard(0), Replicate(), {{"all_gather", 1}}},
                        {Shard(0), Shard(1), {{"all_to_all", 1}}},
                        {Replicate(), Shard(1), {}},
                        {Replicate(), p, {}},
                        {p, Replicate(), {{"all_reduce", 1}}},
                        {p, Shard(1), {{"reduce_scatter", 1}}},
                        {p, p, {}},
                        {Shard(0), p, {{"all_gather", 1}}},
                        {Shard(1), Shard(1), {}}};
    for (const Row& row : rows)
      EXPECT_EQ(Collectives(PlanTransitions(Sharding{row.from}, Sharding{row.to})), row.want)
          << ToString(row.from) << " -> " << ToString(row.to);
  }
}

// The steps end in the target placement and change one axis each. Only the innermost axis of a dim is ever removed from
// it.
TEST(Transitions, EveryPlanIsASequenceOfLegalSteps) {
  for (int axes : {1, 2})
    for (const Sharding& from : AllShardings(2, axes))
      for (const Sharding& to : AllShardings(2, axes)) {
        if (ChangesPartial(from, to)) continue;
        Sharding at = from;
        int collectives = 0;
        for (const Transition& t : PlanTransitions(from, to)) {
          EXPECT_TRUE(at[t.axis].kind != Placement::kShard || at.DimAxes(at[t.axis].dim).back() == t.axis);
          Sharding next = at;
          next.Set(t.axis, t.after[t.axis]);
          EXPECT_EQ(next, t.after);
          at = t.after;
          collectives += IsCollective(t.op);
        }
        EXPECT_EQ(at, to);
        EXPECT_LE(collectives, axes) << ToString(from) << " -> " << ToString(to);
      }
}

// If only one axis differs, and the other keeps its place in the order, one collective is enough. A slice costs none.
TEST(Transitions, AnAxisThatAloneDiffersCostsOneCollective) {
  for (const Sharding& from : AllShardings(2, 2))
    for (const Sharding& to : AllShardings(2, 2))
      for (int a : {0, 1}) {
        if (!(from[1 - a] == to[1 - a]) || from[a] == to[a] || ChangesPartial(from, to)) continue;
        Counts counts = Collectives(PlanTransitions(from, to));
        int total = 0;
        for (auto& [name, n] : counts) total += n;
        EXPECT_EQ(total, from[a].kind == Placement::kReplicate ? 0 : 1) << ToString(from) << " -> " << ToString(to);
      }
}

TEST(Transitions, OnePartialNeverBecomesAnother) {
  for (const Placement& p : kPartials)
    for (const Placement& q : kPartials) {
      if (p == q) continue;
      try {
        PlanTransitions(Sharding{p}, Sharding{q});
        ADD_FAILURE() << ToString(p) << " -> " << ToString(q) << " was planned";
      } catch (const Error& e) {
        EXPECT_EQ(std::string(e.what()), fmt::format("reshard: ({}) cannot become ({}); two kinds of Partial never mix",
                                                     ToString(p), ToString(q)));
      }
    }
}

}  // namespace
}  // namespace weft
