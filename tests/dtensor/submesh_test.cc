// Meshes over some of the ranks, and submeshes. Each works as a mesh by itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dtensor/worlds.h"
#include "error_of.h"
#include "weft/parallel/dtensor/factories.h"

namespace weft {
namespace {

using test::EveryPlacement;
using test::ExpectIs;
using test::LargestDifference;
using test::LocalOf;
using test::OnWorld;

// On the mesh of an open scope, every placement can change to every other one.
void ExpectAllPairs(DeviceMesh& mesh, const Tensor& global) {
  for (const Sharding& from : EveryPlacement(mesh.shape().num_axes()))
    for (const Sharding& to : EveryPlacement(mesh.shape().num_axes())) {
      DTensor x = DTensor::FromLocal(LocalOf(global, from, mesh), mesh, from, global.shape());
      ExpectIs(x.Redistribute(to), global,
               fmt::format("{} -> {} on {}", ToString(from), ToString(to), ToString(mesh.shape())));
    }
}

// Each rank uses its own submesh of a mesh, each with another tensor, at the same time. No values pass from one submesh
// to another.
TEST(Submesh, EachIsAMeshOfItsOwn) {
  const std::vector<std::vector<std::string>> kept{{"x"}, {"z"}, {"z", "x"}, {"y", "z"}, {"x", "y", "z"}};
  OnWorld([&](Context& context, GroupFactory& groups) {
    DeviceMesh all(context, groups, test::MeshOf({2, 2, 2}));
    for (const auto& axes : kept) {
      Submesh part = SubmeshOf(all.shape(), axes, context.rank());
      DeviceMesh mesh(context, groups, part.shape, part.ranks);
      EXPECT_TRUE(mesh.has_this_rank());
      EXPECT_EQ(part.ranks[size_t(mesh.rank())], context.rank());
      for (int a = 0; a < mesh.shape().num_axes(); a++)
        EXPECT_EQ(mesh.coords()[size_t(a)], all.coords()[size_t(all.shape().Axis(mesh.shape().names[size_t(a)]))]);
      EagerScope eager(context, mesh);
      ExpectAllPairs(mesh, test::Draw({7, 5}, uint64_t(part.ranks[0])));
    }
  });
}

TEST(Submesh, KeepsTheOrderOfTheMesh) {
  Submesh part = SubmeshOf({{"replicate", "dp", "tp"}, {2, 3, 2}}, std::vector<std::string>{"tp", "replicate"}, 9);
  EXPECT_EQ(part.shape, (MeshShape{{"replicate", "tp"}, {2, 2}}));
  EXPECT_EQ(part.ranks, (std::vector<int>{2, 3, 8, 9}));
}

// The mesh keeps the given order of ranks, which need not be ascending.
TEST(MeshOfSomeRanks, HasAllPairsAndNoOthers) {
  const std::vector<int> ranks{5, 1, 4, 2};
  OnWorld([&](Context& context, GroupFactory& groups) {
    DeviceMesh mesh(context, groups, test::MeshOf({2, 2}), ranks);
    auto here = std::find(ranks.begin(), ranks.end(), context.rank());
    EXPECT_EQ(mesh.has_this_rank(), here != ranks.end());
    if (here == ranks.end()) {
      EXPECT_EQ(mesh.rank(), -1);
      std::string error = test::ErrorOf([&] { mesh.World(); });
      EXPECT_NE(error.find(fmt::format("rank {} is not among the ranks 5, 1, 4, 2 of x=2 x y=2", context.rank())),
                std::string::npos)
          << error;
      error = test::ErrorOf([&] { EagerScope eager(context, mesh); });
      EXPECT_NE(error.find("is not among the ranks of the mesh x=2 x y=2"), std::string::npos) << error;
      return;
    }
    EXPECT_EQ(mesh.rank(), int(here - ranks.begin()));
    EagerScope eager(context, mesh);
    ExpectAllPairs(mesh, test::Draw({5, 6}, 1));
    EXPECT_EQ(LargestDifference(Randn({5, 6}, mesh, {Shard(0), Shard(1)}, {.seed = 3}).FullTensor(),
                                Randn({5, 6}, mesh, {Replicate(), Replicate()}, {.seed = 3}).FullTensor()),
              0);
  });
}

TEST(MeshOfSomeRanks, RefusesRanksThatAreNone) {
  RunRanks(1, [&](Context& context, GroupFactory& groups) {
    for (const std::vector<int>& ranks : {std::vector{0, 0}, std::vector{0, 1}, std::vector{-1, 0}}) {
      std::string error = test::ErrorOf([&] { DeviceMesh(context, groups, test::MeshOf({2}), ranks); });
      EXPECT_NE(error.find("expected ranks of [0, 1), each once"), std::string::npos) << error;
    }
    std::string error = test::ErrorOf([&] { DeviceMesh(context, groups, test::MeshOf({2}), std::vector<int>{0}); });
    EXPECT_NE(error.find(": x=2 needs 2 ranks, got 1 that are"), std::string::npos) << error;
    error = test::ErrorOf([&] { DeviceMesh(context, groups, test::MeshOf({2}), std::vector<int>{}); });
    EXPECT_TRUE(error.ends_with(": x=2 needs 2 ranks, got 0 that are given; list 2, in the order of the mesh"))
        << error;
  });
}

}  // namespace
}  // namespace weft
