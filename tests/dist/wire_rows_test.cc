// Sums whose terms are sent between in-process ranks as bf16, on the CPU and on device doubles, where calls run
// together. The tests of Gloo and NCCL check the same law.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "dist/wire_cases.h"
#include "double/group_double.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {
namespace {

TEST(WireRows, AddRoundedTermsInRankOrder) {
  std::atomic<int> ran{0};
  for (int ranks = 1; ranks <= 7; ranks++)
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
      ran += test::CheckWireRows(mesh, context, DeviceKind::kCpu);
    });
  fmt::print("shown: {} sums on CPUs have the bits of rounded terms, added in rank order\n", ran.load());
}

TEST(WireRows, DoTheSameInTheOrderOfStreams) {
  for (int ranks = 1; ranks <= 4; ranks++)
    test::OnDoubles(ranks, {.most_us = 30}, [&](test::DoubleRank& rank) {
      RegisterCollectives(rank.context.kernels(DeviceKind::kCuda), DeviceKind::kCuda);
      DeviceMesh mesh(rank.context, rank.groups, {{"x"}, {ranks}}, rank.groups.kinds());
      test::CheckWireRows(mesh, rank.context, DeviceKind::kCuda);
    });
}

}  // namespace
}  // namespace weft
