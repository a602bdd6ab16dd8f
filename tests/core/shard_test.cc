// Laws of chunk arithmetic. They are checked over all extents up to 40, meshes of one to three axes, and every order of
// every subset of axes.
#include "weft/core/base/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace weft {
namespace {

const std::vector<std::vector<int>> kMeshes{{1},    {2},    {3},    {4},    {5},       {2, 2},
                                            {2, 3}, {3, 2}, {4, 2}, {1, 3}, {2, 2, 2}, {3, 1, 2}};

MeshShape MeshOf(const std::vector<int>& sizes) {
  MeshShape mesh;
  for (size_t i = 0; i < sizes.size(); i++) mesh.names.push_back(std::string(1, char('a' + i)));
  mesh.sizes = sizes;
  return mesh;
}

// Returns every sequence of distinct axes, including the empty one.
std::vector<AxisList> Orders(int axes) {
  std::vector<AxisList> all{{}};
  for (size_t i = 0; i < all.size(); i++)
    for (int a = 0; a < axes; a++) {
      AxisList longer = all[i];
      if (std::find(longer.begin(), longer.end(), a) != longer.end()) continue;
      longer.push_back(a);
      all.push_back(longer);
    }
  return all;
}

void ForEach(const std::function<void(int64_t, const AxisList&, const MeshShape&)>& law) {
  for (const auto& sizes : kMeshes) {
    MeshShape mesh = MeshOf(sizes);
    for (const AxisList& axes : Orders(mesh.num_axes()))
      for (int64_t n = 0; n <= 40; n++) law(n, axes, mesh);
  }
}

// Returns a rank's coordinates on `axes` as one number. The first axis is the major one.
int64_t Position(const AxisList& axes, const MeshShape& mesh, const Coords& coords) {
  int64_t position = 0;
  for (int a : axes) position = position * mesh.sizes[size_t(a)] + coords[size_t(a)];
  return position;
}

TEST(Shard, ChunksCoverTheDimExactlyOnce) {
  ForEach([](int64_t n, const AxisList& axes, const MeshShape& mesh) {
    std::vector<int> held(size_t(n), 0);
    int replicas = mesh.num_ranks();
    for (int a : axes) replicas /= mesh.sizes[size_t(a)];
    for (int r = 0; r < mesh.num_ranks(); r++) {
      DimShard s = ShardOfDim(n, axes, mesh, mesh.CoordsOf(r));
      for (int64_t i = 0; i < s.extent; i++) held.at(size_t(s.offset + i))++;
    }
    for (int count : held) ASSERT_EQ(count, replicas) << n << " on " << ToString(mesh);
  });
}

TEST(Shard, CapacityIsTheSameOnAllRanksAndNeverExceeded) {
  ForEach([](int64_t n, const AxisList& axes, const MeshShape& mesh) {
    for (int r = 0; r < mesh.num_ranks(); r++) {
      DimShard s = ShardOfDim(n, axes, mesh, mesh.CoordsOf(r));
      ASSERT_EQ(s.capacity, ChunkSize(n, axes, mesh));
      ASSERT_GE(s.extent, 0);
      ASSERT_LE(s.extent, s.capacity);
    }
  });
}

// Chunks lie in the order of the ranks' coordinates, with the major axis first.
TEST(Shard, OffsetsGrowWithThePositionMajorFirst) {
  ForEach([](int64_t n, const AxisList& axes, const MeshShape& mesh) {
    std::vector<std::pair<int64_t, int64_t>> by_position;
    for (int r = 0; r < mesh.num_ranks(); r++)
      by_position.emplace_back(Position(axes, mesh, mesh.CoordsOf(r)),
                               ShardOfDim(n, axes, mesh, mesh.CoordsOf(r)).offset);
    std::sort(by_position.begin(), by_position.end());
    for (size_t i = 1; i < by_position.size(); i++) ASSERT_LE(by_position[i - 1].second, by_position[i].second);
  });
}

// One axis cuts like torch.chunk: trailing ranks hold less or nothing.
TEST(Shard, OneAxisCutsLikeTorchChunk) {
  for (int k = 1; k <= 6; k++)
    for (int64_t n = 0; n <= 40; n++)
      for (int r = 0; r < k; r++) {
        int64_t chunk = (n + k - 1) / k, begin = std::min<int64_t>(r * chunk, n),
                end = std::min<int64_t>(begin + chunk, n);
        DimShard s = ShardOfDim(n, {0}, MeshOf({k}), {r});
        EXPECT_EQ(s.capacity, chunk);
        EXPECT_EQ(s.extent, end - begin);
        if (s.extent) {
          EXPECT_EQ(s.offset, begin);
        }
      }
}

// A minor axis divides the chunk of its major axes. Its chunk size comes from their chunk size, not from the extent.
TEST(Shard, ANestedChunkComesFromTheChunk) {
  ForEach([](int64_t n, const AxisList& axes, const MeshShape& mesh) {
    if (axes.empty()) return;
    AxisList major(axes.begin(), axes.end() - 1);
    int minor = axes.back(), k = mesh.sizes[size_t(minor)];
    for (int r = 0; r < mesh.num_ranks(); r++) {
      Coords coords = mesh.CoordsOf(r);
      DimShard whole = ShardOfDim(n, major, mesh, coords), part = ShardOfDim(n, axes, mesh, coords);
      ASSERT_EQ(part.capacity, (whole.capacity + k - 1) / k);
      int64_t begin = std::min(coords[size_t(minor)] * part.capacity, whole.extent);
      ASSERT_EQ(part.extent, std::min(part.capacity, whole.extent - begin));
      ASSERT_EQ(part.offset, whole.offset + begin);
    }
  });
}

TEST(Shard, AnAxisOfOneRankChangesNothing) {
  MeshShape with = MeshOf({3, 1, 2}), without = MeshOf({3, 2});
  for (int64_t n = 0; n <= 40; n++)
    for (int r = 0; r < 6; r++) {
      Coords c = without.CoordsOf(r);
      DimShard a = ShardOfDim(n, {0, 1, 2}, with, {c[0], 0, c[1]}), b = ShardOfDim(n, {0, 1}, without, c);
      EXPECT_EQ(a.capacity, b.capacity);
      EXPECT_EQ(a.extent, b.extent);
      EXPECT_EQ(a.offset, b.offset);
    }
}

TEST(Shard, ChunkShapeCutsEachDimByItsOwnAxes) {
  MeshShape mesh = MeshOf({2, 4});
  // Chunk sizes round up: 10 / 4 is 3 and 3 / 2 is 2; with the other order 10 / 2 is 5 and 5 / 4 is 2.
  EXPECT_EQ(ChunkShape({10, 6, 5}, Sharding{Shard(0, 1), Shard(0, 0)}, mesh), (Shape{2, 6, 5}));
  EXPECT_EQ(ChunkShape({10, 6, 5}, Sharding{Shard(0, 0), Shard(0, 1)}, mesh), (Shape{2, 6, 5}));
  EXPECT_EQ(ChunkShape({10, 6, 5}, Sharding{Shard(2), Shard(1)}, mesh), (Shape{10, 2, 3}));
  EXPECT_EQ(ChunkShape({10, 6, 5}, Sharding{Partial(), Replicate()}, mesh), (Shape{10, 6, 5}));
  EXPECT_EQ(ChunkShape({}, Sharding{Partial(), Replicate()}, mesh), Shape{});
}

TEST(MeshShape, RanksAreRowMajor) {
  for (const auto& sizes : kMeshes) {
    MeshShape mesh = MeshOf(sizes);
    for (int r = 0; r < mesh.num_ranks(); r++) {
      EXPECT_EQ(mesh.RankOf(mesh.CoordsOf(r)), r);
      if (r + 1 < mesh.num_ranks()) {
        EXPECT_LT(mesh.CoordsOf(r), mesh.CoordsOf(r + 1));
      }
    }
  }
}

}  // namespace
}  // namespace weft
