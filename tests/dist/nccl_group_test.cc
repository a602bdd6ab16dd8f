// NcclGroup without a GPU: device doubles, and a fake NCCL library (tests/double/fake_nccl.cc).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dist/stream_cases.h"
#include "dist/wire_cases.h"
#include "double/group_double.h"
#include "double/nccl_double.h"
#include "error_of.h"
#include "scoped_environment.h"
#include "support/staged_group.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::DoubleRank;
using Op = CollectiveOp;

constexpr DeviceKind kDouble = DeviceKind::kCuda;

using Failing = test::FailingNccl;

void OnNccl(const MeshShape& shape, const std::function<void(DoubleRank&, DeviceMesh&)>& body, int most_us = 0) {
  test::OnDoubles(shape.num_ranks(), {.most_us = most_us, .groups = test::NcclGroups}, [&](DoubleRank& rank) {
    DeviceMesh mesh(rank.context, rank.groups, shape, rank.groups.kinds());
    body(rank, mesh);
  });
}

TEST(NcclGroup, EnqueueGivesTheBitsOfTheHost) {
  std::atomic<int> calls{0};
  for (int ranks = 1; ranks <= 4; ranks++)
    OnNccl(
        {{"x"}, {ranks}},
        [&](DoubleRank& rank, DeviceMesh& mesh) {
          calls += test::CheckStreamCases(rank.device, mesh.World(), mesh.World(kDouble));
        },
        30);
  fmt::print("shown: {} calls of NCCL's group have the bits of the host's\n", calls.load());
}

TEST(NcclGroup, EveryAxisHasItsRanks) {
  OnNccl({{"a", "b", "c"}, {2, 1, 3}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
    for (const char* axis : {"a", "b", "c"}) {
      EXPECT_EQ(mesh.Group(axis, kDouble).ranks(), mesh.Group(axis).ranks());
      test::CheckStreamCases(rank.device, mesh.Group(axis), mesh.Group(axis, kDouble));
    }
    test::CheckStreamCases(rank.device, mesh.World(), mesh.World(kDouble));
  });
}

TEST(NcclGroup, AMeshOfSomeRanksLeavesTheOthersOut) {
  test::OnDoubles(4, {.groups = test::NcclGroups}, [](DoubleRank& rank) {
    DeviceMesh some(rank.context, rank.groups, {{"x"}, {2}}, {3, 1}, rank.groups.kinds());
    if (!some.has_this_rank()) return;
    test::CheckStreamCases(rank.device, some.World(), some.World(kDouble));
  });
}

// The exchanges of a bucket run as one call, and so do its gathers.
TEST(NcclGroup, SumsWithAWireAddRoundedTermsInRankOrder) {
  for (int ranks = 1; ranks <= 4; ranks++)
    OnNccl(
        {{"x"}, {ranks}},
        [](DoubleRank& rank, DeviceMesh& mesh) {
          RegisterCollectives(rank.context.kernels(kDouble), kDouble);
          test::CheckWireRows(mesh, rank.context, kDouble);
        },
        30);
}

// ---- Failures. ----

std::string ErrorOf(int ranks, const std::function<void(DoubleRank&, ProcessGroup&)>& body) {
  return test::ErrorOf([&] {
    OnNccl({{"x"}, {ranks}}, [&](DoubleRank& rank, DeviceMesh& mesh) { body(rank, mesh.World(kDouble)); });
  });
}

void ExpectParts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

TEST(NcclGroup, ACallThatTheDeviceDoesNotComeToTheEndOfIsNamed) {
  std::atomic<int> heard{0};
  std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
    group.set_failure_handler([&](const std::string&) { heard++; });
    group.Run({.op = Op::kBarrier});
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(600ms);
    group.set_timeout(200ms);
    SiteText site("blocks.0.mlp", Loc::current());
    group.Run({.op = Op::kBarrier, .site = site});
  });
  ExpectParts(text, {"barrier #2 on group \"world\"", "of 2", "timed out", "0.2 s",
                     "at blocks.0.mlp nccl_group_test.cc:", "last collectives", "#1 barrier", "done", "not done"});
  EXPECT_EQ(heard, 1);
}

// Records a sum over all ranks, in place, and a barrier.
std::unique_ptr<DeviceRuntime::Recording> RecordSum(DoubleRank& rank, ProcessGroup& group, const Tensor& t) {
  return rank.device.Record([&] {
    SiteText site("blocks.0.mlp", Loc::current());
    group.Enqueue(
        {.op = Op::kAllReduce, .in = t.data(), .out = t.data(), .count = 3, .dtype = DType::kF32, .site = site});
    group.Enqueue({.op = Op::kBarrier});
  });
}

TEST(NcclGroup, ReplayedCallsAreNumberedCountedAndRecorded) {
  OnNccl({{"x"}, {2}}, [](DoubleRank& rank, DeviceMesh& mesh) {
    ProcessGroup& group = mesh.World(kDouble);
    Tensor t = Tensor::FromDoubles(std::vector<double>{1, 2, 3}, DType::kF32, {3}).To(rank.device);
    group.Run({.op = Op::kBarrier});
    auto recording = RecordSum(rank, group, t);
    EXPECT_EQ(group.count(Op::kAllReduce).calls, 0);
    EXPECT_EQ(group.sequence(), 1u);
    for (int i = 0; i < 3; i++) recording->Replay();
    rank.device.Synchronize();
    EXPECT_EQ(t.To(CpuRuntime()).ToDoubles(), (std::vector<double>{8, 16, 24}));
    EXPECT_EQ(group.count(Op::kAllReduce).calls, 3);
    EXPECT_EQ(group.count(Op::kAllReduce).bytes, 3 * 3 * 4);
    EXPECT_EQ(group.sequence(), 7u);
    std::vector<CallRecord> last = group.recorder().Last(2);
    ASSERT_EQ(last.size(), 2u);
    EXPECT_EQ(last[0].sequence, 6u);
    EXPECT_TRUE(std::string_view(last[0].site).starts_with("blocks.0.mlp nccl_group_test.cc:"));
    EXPECT_EQ(last[1].op, Op::kBarrier);
    EXPECT_EQ(last[1].sequence, 7u);
    EXPECT_TRUE(last[0].done && last[1].done);
  });
}

TEST(NcclGroup, AReplayedCallThatTheDeviceDoesNotComeToTheEndOfIsNamed) {
  std::atomic<int> heard{0};
  std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
    group.set_failure_handler([&](const std::string&) { heard++; });
    group.set_timeout(200ms);
    Tensor t = Tensor::Zeros(DType::kF32, {3}, rank.device);
    auto recording = RecordSum(rank, group, t);
    recording->Replay();
    rank.device.Synchronize();
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(600ms);
    recording->Replay();
    ExpectParts(test::ErrorOf([&] { rank.device.Synchronize(); }), {"all_reduce f32 x 3 sum #3"});
    recording->Replay();
  });
  ExpectParts(text, {"all_reduce f32 x 3 sum #3 on group \"world\"", "of 2", "timed out", "0.2 s",
                     "at blocks.0.mlp nccl_group_test.cc:", "#2 barrier", "done", "not done"});
  EXPECT_EQ(heard, 1);
}

// The last call of a recording is named if it does not end, whether it begins where the call before it ends or after
// other work. It counts as begun only when the device comes to it.
TEST(NcclGroup, TheCallThatHangsIsNamedWhereverItBegins) {
  for (bool work_between : {false, true})
    for (bool hangs_last : {false, true}) {
      SCOPED_TRACE(testing::Message() << (work_between ? "work between" : "nothing between") << ", hangs in the "
                                      << (hangs_last ? "last" : "first"));
      std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
        group.set_timeout(200ms);
        Tensor t = Tensor::Zeros(DType::kF32, {3}, rank.device), u = Tensor::Zeros(DType::kF32, {5}, rank.device);
        int calls = rank.context.rank() == 0 ? 3 : hangs_last ? 2 : 1;
        auto recording = rank.device.Record([&] {
          for (int i = 0; i < calls; i++) {
            if (work_between) rank.device.Fill(u.data(), 1, u.bytes());
            group.Enqueue({.op = Op::kAllReduce, .in = t.data(), .out = t.data(), .count = 1 + i});
          }
        });
        recording->Replay();
        if (rank.context.rank() == 1) {
          rank.device.Synchronize();
          return std::this_thread::sleep_for(600ms);
        }
        rank.device.Synchronize();
      });
      ExpectParts(text, {hangs_last ? "all_reduce f32 x 3 sum #3" : "all_reduce f32 x 2 sum #2", "timed out"});
      size_t list = text.find("last collectives");
      ASSERT_NE(list, std::string::npos) << text;
      EXPECT_EQ(text.find("#3", list) != std::string::npos, hangs_last) << text;
    }
}

// On 2 x 2 ranks, rank 0 waits for ranks that wait for rank 3, in groups that have no failure of their own.
TEST(NcclGroup, AReplayThatFailsEndsThoseOfAllGroups) {
  std::atomic<int> threw{0};
  auto begin = std::chrono::steady_clock::now();
  OnNccl({{"a", "b"}, {2, 2}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
    mesh.set_timeout(300ms);
    Tensor t = Tensor::Zeros(DType::kF32, {3}, rank.device);
    auto recording = rank.device.Record([&] {
      for (const char* axis : {"b", "a"})
        mesh.Group(axis, kDouble)
            .Enqueue({.op = Op::kAllReduce, .in = t.data(), .out = t.data(), .count = 3, .dtype = DType::kF32});
    });
    recording->Replay();
    rank.device.Synchronize();
    if (rank.context.rank() == 3) return std::this_thread::sleep_for(1500ms);
    recording->Replay();
    threw += test::ErrorOf([&] { rank.device.Synchronize(); }) != "";
  });
  EXPECT_GE(threw, 2);  // the partners of rank 3; rank 0 may be ended by its own partner
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(NcclGroup, CallsThatGoTogetherHaveTheBitsOfEach) {
  OnNccl({{"x"}, {3}}, [](DoubleRank& rank, DeviceMesh& mesh) {
    ProcessGroup &host = mesh.World(), &group = mesh.World(kDouble);
    std::vector<Tensor> in, want, got;
    std::vector<Collective> calls;
    for (size_t i = 0; i < 5; i++) {
      in.push_back(test::InputOf(rank.context.rank(), 3 * 7, DType::kF32, i, test::Values::kRounding));
      Collective call{.op = i % 2 ? Op::kAllReduce : Op::kReduceScatter, .count = i % 2 ? 21 : 7};
      want.push_back(Tensor::Zeros(DType::kF32, {call.count}));
      call.in = in[i].data();
      call.out = want[i].data();
      host.Run(call);
      in[i] = in[i].To(rank.device);
      got.push_back(Tensor::Zeros(DType::kF32, {call.count}, rank.device));
      call.in = in[i].data();
      call.out = got[i].data();
      calls.push_back(call);
    }
    group.EnqueueAll(calls);
    for (size_t i = 0; i < 5; i++) EXPECT_EQ(got[i].To(CpuRuntime()).ToDoubles(), want[i].ToDoubles()) << i;
    EXPECT_EQ(group.sequence(), 5u);
    EXPECT_EQ(group.count(Op::kAllReduce).calls, 2);
  });
}

// With NCCL such ranks would hang. The library that replaces it says so, and this holds that it does.
TEST(NcclGroup, GroupsOfOtherCallsOnOtherRanksAreFound) {
  for (Op op : {Op::kAllReduce, Op::kAllToAll})
    for (bool differ : {false, true}) {
      OnNccl({{"x"}, {3}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
        std::vector<Tensor> in, out;
        std::vector<Collective> calls;
        for (int64_t i = 0; i < 4; i++) {
          for (auto* tensors : {&in, &out}) tensors->push_back(Tensor::Zeros(DType::kF32, {3 * (3 + i)}, rank.device));
          calls.push_back({.op = op, .in = in.back().data(), .out = out.back().data(), .count = 3 + i});
        }
        size_t first = differ && rank.context.rank() == 2 ? 3 : 2;
        mesh.World(kDouble).EnqueueAll(std::span(calls).first(first));
        mesh.World(kDouble).EnqueueAll(std::span(calls).subspan(first));
        rank.device.Synchronize();
      });
      EXPECT_EQ(test::FakeNcclFaults() != "", differ) << Name(op);
    }
}

TEST(NcclGroup, CallsThatGoTogetherFailTogether) {
  std::atomic<int> heard{0};
  std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
    group.set_failure_handler([&](const std::string&) { heard++; });
    group.Run({.op = Op::kBarrier});
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(600ms);
    group.set_timeout(200ms);
    Tensor a = Tensor::Zeros(DType::kF32, {3}, rank.device), b = Tensor::Zeros(DType::kF32, {4}, rank.device);
    std::vector<Collective> calls;
    for (const Tensor* t : {&a, &b})
      calls.push_back({.op = Op::kAllReduce, .in = t->data(), .out = t->data(), .count = t->shape()[0]});
    group.EnqueueAll(calls);
    rank.device.Synchronize();
  });
  ExpectParts(text, {"all_reduce f32 x 3 sum #2 on group \"world\"", "timed out"});
  EXPECT_EQ(heard, 1);
}

TEST(NcclGroup, WhoUnwindsDoesNotWaitForItsReplays) {
  std::string text = ErrorOf(2, [](DoubleRank& rank, ProcessGroup& group) {
    Tensor t = Tensor::Zeros(DType::kF32, {3}, rank.device);
    auto recording = RecordSum(rank, group, t);
    recording->Replay();
    rank.device.Synchronize();
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(300ms);
    recording->Replay();
    throw Error("the cause");
  });
  EXPECT_EQ(text, "the cause");
}

TEST(NcclGroup, WhatNcclFindsAfterACallReturnedIsThrown) {
  std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(300ms);
    Failing broken("broken");
    group.Run({.op = Op::kBarrier});
  });
  ExpectParts(text, {"barrier #1", "NCCL says remote process exited: the fake's last words"});
}

TEST(NcclGroup, AnAbortEndsWhatIsUnderWayAndAllThatFollows) {
  std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(300ms);
    Work work = group.Start({.op = Op::kBarrier});
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(work.Test());
    group.Abort("the reason");
    ExpectParts(test::ErrorOf([&] { work.Wait(); }), {"barrier #1", "aborted: the reason"});
    group.Run({.op = Op::kBarrier});
  });
  ExpectParts(text, {"aborted: the reason"});
}

TEST(NcclGroup, RanksThatCannotConnectSayWhy) {
  Failing unconnected("unconnected");
  ExpectParts(ErrorOf(2, [](DoubleRank&, ProcessGroup&) {}),
              {"NCCL cannot connect the 2 ranks: NCCL says invalid argument: the fake's last words"});
}

// ---- The library. ----

std::string FaultOf(const std::string& file) {
  return std::string(NcclLibrary::Open(4, true, file).status().message());
}

TEST(NcclLibrary, SaysWhatItIsOpenedForAndWhatToDo) {
  ExpectParts(FaultOf("libno_such_nccl.so.2"),
              {"4 ranks on GPUs talk through NCCL, which cannot be opened (libno_such_nccl.so.2", "install NCCL 2.28.0",
               "LD_LIBRARY_PATH", "device=cpu"});
  ExpectParts(FaultOf("libm.so.6"), {"NCCL: expected version 2.28.0 or newer", "in libm.so.6", "without nccl"});
  Failing old("old");
  ExpectParts(FaultOf(WEFT_FAKE_NCCL), {"expected version 2.28.0 or newer, got 2.27.3", "install a newer one"});
}

TEST(NcclLibrary, RefusesNvlinkMulticast) {
  test::ScopedEnvironment multicast("NCCL_NVLS_ENABLE", "1");
  ExpectParts(FaultOf(WEFT_FAKE_NCCL), {"NCCL_NVLS_ENABLE: expected 0", "got \"1\""});
}

TEST(NcclLibrary, SetsWhatTheUserHasNotSet) {
  test::ScopedEnvironment own("NCCL_GRAPH_REGISTER", "1"), unset("NCCL_SOCKET_IFNAME", nullptr);
  test::OpenFakeNccl();
  EXPECT_STREQ(std::getenv("NCCL_GRAPH_REGISTER"), "1");
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "lo");
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
}

// ---- Through the host's memory. ----

TEST(StagedGroup, GivesTheBitsOfTheHost) {
  for (int ranks = 1; ranks <= 4; ranks++)
    test::OnDoubles(ranks, {.most_us = 30}, [&](DoubleRank& rank) {
      StagedGroupFactory groups(rank.groups, rank.device);
      DeviceMesh mesh(rank.context, groups, {{"x"}, {ranks}}, groups.kinds());
      test::CheckStreamCases(rank.device, mesh.World(), mesh.World(kDouble));
    });
}

}  // namespace
}  // namespace weft
