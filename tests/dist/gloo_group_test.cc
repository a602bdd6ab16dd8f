// Gloo between real processes keeps the laws of the in-process group, on a smaller sweep, and gives the bits of that
// group.
#include "weft/dist/group/gloo/gloo_group.h"
#include "weft/dist/group/standard/group_maker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "collective_law.h"
#include "dist/wire_cases.h"
#include "error_of.h"
#include "gloo_traffic.h"
#include "mpi_run.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {
namespace {

using test::ErrorOf;

using namespace std::chrono_literals;

struct Job {
  Bootstrap& bootstrap = test::TheBootstrap();
  Context context{bootstrap.rank(), bootstrap.world_size()};
  std::unique_ptr<GroupFactory> groups = MakeGroupFactory(bootstrap);
};

MeshShape Square(int ranks) {
  return ranks % 2 ? MeshShape{{"dp", "tp"}, {ranks, 1}} : MeshShape{{"dp", "tp"}, {ranks / 2, 2}};
}

TEST(GlooGroup, EveryCollectiveEqualsItsReference) {
  Job job;
  DeviceMesh mesh(job.context, *job.groups, Square(job.context.world_size()));
  for (ProcessGroup* group : {&mesh.World(), &mesh.Group("dp"), &mesh.Group("tp")}) {
    for (DType dtype : test::kAllDTypes)
      for (int64_t n : {0, 1, 7, 1000, 50000}) {
        test::CheckCollectives(*group, dtype, n);
        test::CheckUneven(*group, dtype, n);
        test::CheckRing(*group, dtype, n);
      }
    test::CheckBackground(*group);
  }
}

TEST(GlooGroup, SumsWithAWireAddRoundedTermsInRankOrder) {
  Job job;
  RegisterCollectives(job.context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  DeviceMesh mesh(job.context, *job.groups, {{"x"}, {job.context.world_size()}});
  EXPECT_GT(test::CheckWireRows(mesh, job.context, DeviceKind::kCpu), 80);
}

double Wild(int r, int64_t i) { return std::sin(double(i * 7 + r)) * std::pow(10.0, double((i + r) % 5)); }

// Returns the sums of all ranks' wild values, computed by the in-process group.
std::vector<Tensor> LocalSums(int ranks, int64_t n, DType dtype) {
  std::vector<Tensor> sums(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
    DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
    std::vector<double> values;
    for (int64_t i = 0; i < n; i++) values.push_back(Wild(context.rank(), i));
    Tensor x = Tensor::FromDoubles(values, dtype, {n});
    sums[size_t(context.rank())] = collectives::AllReduce(x, mesh, "x");
  });
  return sums;
}

TEST(GlooGroup, GivesTheBitsOfTheInProcessGroup) {
  Job job;
  DeviceMesh mesh(job.context, *job.groups, {{"x"}, {job.context.world_size()}});
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (int64_t n : {1, 100, 5000, 100000, 1500000}) {
      std::vector<double> values;
      for (int64_t i = 0; i < n; i++) values.push_back(Wild(mesh.rank(), i));
      Tensor x = Tensor::FromDoubles(values, dtype, {n});
      Tensor sum = collectives::AllReduce(x, mesh, "x");
      EXPECT_EQ(std::memcmp(sum.data(), LocalSums(mesh.size(), n, dtype)[0].data(), sum.bytes()), 0)
          << Name(dtype) << " x " << n;
    }
}

// Runs the call and compares the group's counts with the expected traffic.
void ExpectTraffic(ProcessGroup& group, const Collective& call, int64_t handed, test::Traffic want) {
  group.ResetCounts();
  group.Run(call);
  CallCount expected{1, handed, want.sent, want.received}, got = group.count(call.op);
  EXPECT_EQ(got, expected) << ToString(call) << " on rank " << group.rank() << " of " << group.size() << ": sent "
                           << got.sent << ", expected " << want.sent << "; received " << got.received << ", expected "
                           << want.received;
}

TEST(GlooGroup, MovesTheBytesOfItsTable) {
  Job job;
  DeviceMesh mesh(job.context, *job.groups, Square(job.context.world_size()));
  for (ProcessGroup* group : {&mesh.World(), &mesh.Group("dp"), &mesh.Group("tp")})
    for (DType dtype : {DType::kF64, DType::kBF16, DType::kU8})
      for (int64_t n : {0, 1, 7, 1000, 4097, 1'100'000}) {
        const int k = group->size(), me = group->rank();
        const int64_t element = int64_t(SizeOf(dtype));
        Tensor in = Tensor::Zeros(dtype, {n * k}), out = Tensor::Empty(dtype, {n * k});
        for (CollectiveOp op :
             {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
              CollectiveOp::kBroadcast, CollectiveOp::kReduce, CollectiveOp::kShift, CollectiveOp::kBarrier}) {
          bool has_blocks = op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllToAll;
          int64_t handed = op == CollectiveOp::kBarrier ? 0 : n * element * (has_blocks ? k : 1);
          bool has_peer = Traits(op).has_peer;
          for (int peer = 0; peer < (has_peer ? k : 1); peer++)
            ExpectTraffic(*group,
                          {.op = op, .in = in.data(), .out = out.data(), .count = n, .dtype = dtype, .peer = peer},
                          handed, test::TrafficOf(op, handed, element, me, k, peer));
        }
      }
}

TEST(GlooGroup, MovesTheBytesOfUnevenPieces) {
  Job job;
  DeviceMesh mesh(job.context, *job.groups, {{"x"}, {job.context.world_size()}});
  ProcessGroup& group = mesh.World();
  const int k = group.size(), me = group.rank();
  std::vector<int64_t> pieces(static_cast<size_t>(k)), to, from;
  int64_t total = 0, sent = 0, received = 0;  // counted in elements
  for (int r = 0; r < k; r++) {
    total += pieces[size_t(r)] = 3 * r;
    sent += to.emplace_back(me + 2 * r);
    received += from.emplace_back(r + 2 * me);
  }
  Tensor in = Tensor::Zeros(DType::kF32, {100}), out = Tensor::Empty(DType::kF32, {100});
  int64_t mine = 3 * me, self = 3 * me;
  ExpectTraffic(
      group,
      {.op = CollectiveOp::kAllGatherV, .in = in.data(), .out = out.data(), .count = mine, .recv_counts = pieces},
      4 * mine, {4 * (k - 1) * mine, 4 * (total - mine)});
  ExpectTraffic(group,
                {.op = CollectiveOp::kAllToAllV,
                 .in = in.data(),
                 .out = out.data(),
                 .count = sent,
                 .send_counts = to,
                 .recv_counts = from},
                4 * sent, {4 * (sent - self), 4 * (received - self)});
}

TEST(GlooGroup, TensorsThroughTheRows) {
  Job job;
  int k = job.context.world_size();
  DeviceMesh mesh(job.context, *job.groups, {{"x"}, {k}});
  Tensor full = test::Filled(0, 35, DType::kF32);
  Tensor matrix(full.buffer(), 0, DType::kF32, {5, 7});
  for (int dim : {0, 1}) {
    Tensor part = collectives::ReduceScatter(matrix, mesh, "x", dim);
    Tensor back = collectives::AllGather(part, mesh, "x", dim, dim ? 7 : 5);
    std::vector<double> want = test::InputValues(0, 0, 35, DType::kF32);
    for (double& v : want) v *= k;
    test::ExpectValues(back, want, "reduce_scatter + all_gather");
  }
}

TEST(GlooGroup, SeveralMeshesLiveSideBySide) {
  Job job;
  int k = job.context.world_size();
  DeviceMesh a(job.context, *job.groups, {{"x"}, {k}}), b(job.context, *job.groups, Square(k));
  for (int i = 0; i < 20; i++) {
    test::CheckCollectives(a.Group("x"), DType::kF32, 100);
    test::CheckCollectives(b.Group("tp"), DType::kBF16, 100);
  }
}

// In PT#118369 and nccl#1324 a hang was reported after minutes and named the wrong thread. Here each waiting rank fails
// within the timeout and names its own rank, call and line. Gloo does not tell which peer it waited for.
TEST(GlooGroup, PT118369_NCCL1324_ALateRankIsAnErrorWithinTheTimeout) {
  Job job;
  if (job.context.world_size() == 1) GTEST_SKIP() << "needs 2 ranks";
  DeviceMesh mesh(job.context, *job.groups, {{"x"}, {job.context.world_size()}});
  mesh.set_timeout(300ms);
  mesh.World().Barrier();
  float x = 1;
  if (mesh.rank() == 1) {
    std::this_thread::sleep_for(4s);
  } else {
    auto start = std::chrono::steady_clock::now();
    std::string text = ErrorOf([&] { mesh.Group("x").AllReduce(&x, &x, 1, DType::kF32); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, 3500ms);  // before rank 1 comes, on a loaded machine too
    EXPECT_NE(text.find("all_reduce f32 x 1 sum #1 on group \"x\""), std::string::npos) << text;
    std::string who = "(rank " + std::to_string(mesh.rank()) + " of ";
    for (const std::string& part : {who, std::string(") at gloo_group_test.cc:"), std::string("#1 barrier")})
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
  job.bootstrap.Barrier();
}

TEST(GlooGroup, DifferentCallsDoNotMixData) {
  Job job;
  if (job.context.world_size() == 1) GTEST_SKIP() << "needs 2 ranks";
  for (int variant = 0; variant < 3; variant++) {
    DeviceMesh mesh(job.context, *job.groups, {{"x"}, {job.context.world_size()}});
    mesh.set_timeout(200ms);
    float in[8] = {}, out[8];
    std::string text = ErrorOf([&] {
      if (mesh.rank() != 1)
        mesh.Group("x").AllReduce(in, out, 2, DType::kF32);
      else if (variant == 0)
        mesh.Group("x").AllReduce(in, out, 1, DType::kF64);
      else if (variant == 1)
        mesh.Group("x").AllReduce(in, out, 2, DType::kF32, ReduceOp::kMax);
      else
        mesh.Group("x").AllReduce(in, out, 3, DType::kF32);
    });
    EXPECT_NE(text, "");
    job.bootstrap.Barrier();
  }
}

TEST(GlooGroup, AbortEndsAWait) {
  Job job;
  if (job.context.world_size() == 1) GTEST_SKIP() << "needs 2 ranks";
  DeviceMesh mesh(job.context, *job.groups, {{"x"}, {job.context.world_size()}});
  if (mesh.rank() == 0) {
    Work work = mesh.World().Start({.op = CollectiveOp::kBarrier});
    std::this_thread::sleep_for(50ms);
    mesh.World().Abort("the test says so");
    std::string text = ErrorOf([&] { work.Wait(); });
    EXPECT_NE(text.find("the test says so"), std::string::npos) << text;
    EXPECT_THROW(mesh.World().Barrier(), AbortedError);
  }
  job.bootstrap.Barrier();
  if (mesh.rank() != 0) mesh.World().Abort("done");
}

TEST(MpiBootstrap, GathersBytes) {
  Bootstrap& b = test::TheBootstrap();
  for (size_t bytes : {0, 1, 1000, 100000}) {
    auto all = b.AllGather(std::string(bytes * size_t(b.rank()), char('a' + b.rank())));
    for (int r = 0; r < b.world_size(); r++) EXPECT_EQ(all[size_t(r)], std::string(bytes * size_t(r), char('a' + r)));
  }
  EXPECT_EQ(b.local_size(), b.world_size());
  EXPECT_EQ(b.local_rank(), b.rank());
  EXPECT_FALSE(b.host().empty());
}

}  // namespace
}  // namespace weft
