// Moves of tensors from one mesh or device to another.
#include "weft/parallel/dtensor/move.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "double/device_double.h"
#include "dtensor/worlds.h"
#include "error_of.h"
#include "weft/core/base/box.h"
#include "weft/parallel/dtensor/resized.h"

namespace weft {
namespace {

using test::ExpectIs;
using test::kRanks;
using test::LargestDifference;
using test::LocalOf;
using test::OnWorld;

struct Grounds {
  std::vector<int> sizes, ranks;
};
const std::vector<Grounds> kGrounds{{{2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}},
                                    {{8}, {7, 6, 5, 4, 3, 2, 1, 0}},
                                    {{2, 3}, {0, 2, 4, 1, 3, 5}},
                                    {{2}, {6, 1}},
                                    {{1, 1}, {3}}};

// From every mesh to every other one, with drawn pairs of placements, including the order of the axes that share a dim.
// The shapes are even, uneven and empty.
TEST(Move, EveryMeshLeadsToEveryOther) {
  std::array<int, kRanks> moves{};
  OnWorld([&](Context& context, GroupFactory& groups) {
    DeviceMesh all(context, groups, test::MeshOf({kRanks}));
    std::mt19937_64 draw(5);
    auto drawn = [&](int axes) {
      std::vector<int> order(static_cast<size_t>(axes));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), draw);
      Sharding s(axes);
      const Placement one[] = {Replicate(), Shard(0), Shard(1), Partial()};
      for (int a : order) s.Set(a, one[draw() % 4]);
      return s;
    };
    for (const Grounds& a : kGrounds)
      for (const Grounds& b : kGrounds) {
        DeviceMesh from(context, groups, test::MeshOf(a.sizes), a.ranks),
            to(context, groups, test::MeshOf(b.sizes), b.ranks);
        std::optional<EagerScope> first, second;
        if (from.has_this_rank()) first.emplace(context, from);
        for (const Shape& shape : {Shape{16, 6}, Shape{7, 5}, Shape{1, 3}, Shape{0, 4}})
          for (int i = 0; i < 8; i++) {
            Sharding have = drawn(from.shape().num_axes()), want = drawn(to.shape().num_axes());
            Tensor global = test::Draw(shape, uint64_t(i));
            DTensor x, y;
            if (from.has_this_rank()) x = DTensor::FromLocal(LocalOf(global, have, from), from, have, shape);
            if (to.has_this_rank()) second.emplace(context, to);
            y = Redistribute(x, from, to, want, all.World());
            std::string what = fmt::format("{} {} on {} -> {} on {}", ToString(shape), ToString(have),
                                           ToString(from.shape()), ToString(want), ToString(to.shape()));
            EXPECT_EQ(bool(y), to.has_this_rank()) << what;
            if (y) ExpectIs(y, global, what);
            moves[size_t(context.rank())]++;
            second.reset();
          }
      }
  });
  fmt::print("shown: move, {} moves between {} pairs of meshes\n", moves[0], kGrounds.size() * kGrounds.size());
}

// Between the host and a device whose memory it cannot reach: both ways and within the device, on one mesh and between
// two.
TEST(Move, DevicesLeadToEachOther) {
  OnWorld([&](Context& context, GroupFactory& groups) {
    DeviceMesh all(context, groups, test::MeshOf({2, 2, 2}));
    test::DeviceDouble other;
    DeviceRuntime* devices[] = {&CpuRuntime(), &other};
    MeshShape small = test::MeshOf({3});
    const std::vector<int> some{7, 0, 3};
    for (DType dtype : {DType::kF64, DType::kBF16, DType::kI32})
      for (DeviceRuntime* source : devices)
        for (DeviceRuntime* target : devices)
          for (const Sharding& have :
               {Sharding{Shard(0), Replicate(), Shard(1)}, Sharding{Shard(1), Shard(0), Shard(0)}}) {
            const Shape shape{7, 5};
            Tensor global = test::Draw(shape, 9, dtype);
            Tensor local = test::Chunk(global, have, all.shape(), all.coords()).To(*source);
            MeshLayout from{all.shape(), all.ranks(), have};
            for (const MeshLayout& to :
                 {MeshLayout{all.shape(), all.ranks(), Sharding{Replicate(), Shard(1), Replicate()}},
                  MeshLayout{small, some, Sharding{Shard(0)}}}) {
              Tensor got = MoveTensor(local, {dtype, shape}, from, to, all.World(), *target);
              auto here = std::find(to.ranks.begin(), to.ranks.end(), context.rank());
              ASSERT_EQ(got.defined(), here != to.ranks.end());
              if (!got.defined()) continue;
              EXPECT_EQ(got.device(), target->device());
              Coords coords = to.mesh.CoordsOf(int(here - to.ranks.begin()));
              std::optional<Box> held = HeldBox(shape, to.sharding, to.mesh, coords);
              Tensor want = test::Chunk(global, to.sharding, to.mesh, coords);
              Shape extents = held ? Extents(*held) : Shape{0, 0};
              EXPECT_EQ(LargestDifference(Resized(got.To(CpuRuntime()), extents), Resized(want, extents)), 0)
                  << ToString(have) << " -> " << ToString(to.sharding) << " on " << ToString(to.mesh);
            }
          }
  });
}

TEST(Move, RefusesAGroupWithoutAllRanks) {
  OnWorld([&](Context& context, GroupFactory& groups) {
    DeviceMesh all(context, groups, test::MeshOf({kRanks})),
        some(context, groups, test::MeshOf({2}), std::vector<int>{6, 1});
    if (!some.has_this_rank()) return;
    MeshLayout from{all.shape(), all.ranks(), Sharding{Shard(0)}}, to{some.shape(), some.ranks(), Sharding{Shard(0)}};
    std::string error = test::ErrorOf([&] {
      MoveTensor(test::Draw({1, 2}, 1), {DType::kF64, {8, 2}}, from, to, some.World(), CpuRuntime());
    });
    EXPECT_NE(error.find("expected a group of all ranks of both meshes, got \"world\" without rank 0"),
              std::string::npos)
        << error;
  });
}

}  // namespace
}  // namespace weft
