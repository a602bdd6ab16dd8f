// Collectives in stream order: Enqueue gives the results of Run, does not block the host, and fails like Run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "dist/stream_cases.h"
#include "double/group_double.h"
#include "error_of.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/plan_group.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::DoubleRank;
using test::Hold;
using Op = CollectiveOp;

constexpr DeviceKind kDouble = DeviceKind::kCuda;

void OnDoubles(int ranks, const std::function<void(DoubleRank&, ProcessGroup& host, ProcessGroup& group)>& body,
               int most_us = 0) {
  test::OnDoubles(ranks, {.most_us = most_us}, [&](DoubleRank& rank) {
    DeviceMesh mesh(rank.context, rank.groups, {{"x"}, {ranks}}, rank.groups.kinds());
    body(rank, mesh.World(), mesh.World(kDouble));
  });
}

std::string ErrorOf(int ranks, const std::function<void(DoubleRank&, ProcessGroup& group)>& body) {
  return test::ErrorOf(
      [&] { OnDoubles(ranks, [&](DoubleRank& rank, ProcessGroup&, ProcessGroup& group) { body(rank, group); }); });
}

void ExpectParts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

// ---- The bits of Run. ----

TEST(StreamGroup, EnqueueGivesTheBitsOfRun) {
  std::atomic<int> calls{0};
  for (int ranks = 1; ranks <= 4; ranks++)
    OnDoubles(
        ranks,
        [&](DoubleRank& rank, ProcessGroup& host, ProcessGroup& group) {
          ASSERT_TRUE(group.is_stream_ordered() && !host.is_stream_ordered());
          calls += test::CheckStreamCases(rank.device, host, group);
        },
        30);
  fmt::print("shown: stream order, {} enqueued calls have the bits of Run\n", calls.load());
}

// ---- Order. ----

// A lane that still reads what the main stream has freed finds poison, so the laws of training on doubles would fail.
TEST(DeviceDouble, FreedMemoryIsPoisonToOtherStreams) {
  test::DeviceDouble device;
  std::unique_ptr<StreamedDevice::Stream> beside = device.NewStream();
  constexpr size_t kBytes = 64;
  BufferPtr from = device.Allocate(kBytes), to = device.Allocate(kBytes);
  device.Fill(from->data(), 1, kBytes);
  device.Synchronize();
  {
    Hold hold(*beside);
    StreamScope scope(device, beside.get());
    device.Copy(to->data(), from->data(), kBytes);  // begins when the hold ends
    StreamScope main(device, nullptr);
    from.reset();
    device.Synchronize();
  }
  StreamScope scope(device, beside.get());
  std::vector<uint8_t> got(kBytes);
  device.Copy(got.data(), to->data(), kBytes);
  EXPECT_EQ(got, std::vector<uint8_t>(kBytes, 0xFF));
}

// Runs the same work with and without the wait. Without it the host reads the old value, so the law above can fail.
TEST(StreamGroup, WhoWaitsSeesTheResultAndWhoDoesNotTheOldValue) {
  OnDoubles(2, [](DoubleRank& rank, ProcessGroup&, ProcessGroup& group) {
    test::DeviceDouble& device = rank.device;
    auto beside = device.NewStream();
    auto moved = device.NewEvent();
    Tensor x = Tensor::Scalar(1 + rank.context.rank(), DType::kF64).To(device),
           y = Tensor::Scalar(-1, DType::kF64).To(device);
    Hold hold(*beside);
    {
      StreamScope scope(device, beside.get());
      group.Enqueue({.op = Op::kAllReduce, .in = x.data(), .out = y.data(), .count = 1, .dtype = x.dtype()});
      moved->Record();
    }
    EXPECT_FALSE(moved->Done());  // the host continues before the collective has begun
    EXPECT_EQ(y.Item(), -1);
    hold.Release();
    device.Wait(*moved);
    EXPECT_EQ(y.Item(), 3);
    EXPECT_TRUE(moved->Done());
  });
}

TEST(StreamGroup, AWorkIsDoneWhenTheStreamIsPastIt) {
  OnDoubles(2, [](DoubleRank& rank, ProcessGroup&, ProcessGroup& group) {
    auto beside = rank.device.NewStream();
    Tensor x = Tensor::Scalar(1 + rank.context.rank(), DType::kF64).To(rank.device);
    Collective call{.op = Op::kAllReduce, .in = x.data(), .out = x.data(), .count = 1, .dtype = x.dtype()};
    Hold hold(*beside);
    std::optional<StreamScope> scope(std::in_place, rank.device, beside.get());
    Work work = group.Start(call);
    EXPECT_FALSE(work.Test());
    hold.Release();
    work.Wait();
    group.Run(call);  // Run returns when the call is done
    EXPECT_EQ(x.Item(), 6);
  });
}

TEST(StreamGroup, AFilterSeesWhatIsEnqueued) {
  OnDoubles(2, [](DoubleRank& rank, ProcessGroup&, ProcessGroup& group) {
    std::vector<Op> seen;
    group.set_call_filter([&](const ProcessGroup&, Collective& call) {
      seen.push_back(call.op);
      call.reduce = ReduceOp::kMax;
      return call.op != Op::kBarrier;
    });
    Tensor x = Tensor::Scalar(1 + rank.context.rank(), DType::kF64).To(rank.device);
    group.Enqueue({.op = Op::kAllReduce, .in = x.data(), .out = x.data(), .count = 1, .dtype = x.dtype()});
    group.Enqueue({.op = Op::kBarrier});
    EXPECT_EQ(x.Item(), 2);
    EXPECT_EQ(seen, (std::vector<Op>{Op::kAllReduce, Op::kBarrier}));
    EXPECT_EQ(group.count(Op::kBarrier).calls, 0);
  });
}

// ---- Failures. ----

// Returns the error of rank 0 of three if rank 1 skips the third call. `made` makes that call.
std::string Late(const std::function<void(DoubleRank&, ProcessGroup&, const Collective&)>& make) {
  return ErrorOf(3, [&](DoubleRank& rank, ProcessGroup& group) {
    group.set_timeout(200ms);
    Tensor x = Tensor::Scalar(1, DType::kF64).To(rank.device);
    SiteText site("blocks.0.mlp", Loc::current());
    Collective call{
        .op = Op::kAllReduce, .in = x.data(), .out = x.data(), .count = 1, .dtype = x.dtype(), .site = site};
    group.Enqueue({.op = Op::kBarrier});
    group.Enqueue(call);
    rank.device.Synchronize();
    if (rank.context.rank() != 1) return make(rank, group, call);
    std::this_thread::sleep_for(600ms);
  });
}

// Every way to wait gives an error with module, line, number and rank: waiting for the call, for a later event or for
// the device, and making another call.
TEST(StreamGroup, ARankThatIsLateIsNamedAsByRun) {
  const std::function<void(DoubleRank&, ProcessGroup&, const Collective&)> ways[] = {
      [](DoubleRank&, ProcessGroup& group, const Collective& call) { group.Run(call); },
      [](DoubleRank& rank, ProcessGroup& group, const Collective& call) {
        group.Enqueue(call);
        rank.device.Synchronize();
      },
      [](DoubleRank&, ProcessGroup& group, const Collective& call) { group.Start(call).Wait(); },
      [](DoubleRank& rank, ProcessGroup& group, const Collective& call) {
        auto moved = rank.device.NewEvent();
        group.Enqueue(call);
        moved->Record();
        while (!moved->Done()) std::this_thread::sleep_for(1ms);
      },
      [](DoubleRank&, ProcessGroup& group, const Collective& call) {
        for (group.Enqueue(call);; group.Enqueue(call)) std::this_thread::sleep_for(1ms);
      }};
  for (const auto& way : ways) {
    auto begin = std::chrono::steady_clock::now();
    std::string text = Late(way);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    ExpectParts(text, {"all_reduce f64 x 1 sum #3 on group \"world\"", "of 3", "timed out", "rank 1 (last seen at #2)",
                       "at blocks.0.mlp stream_group_test.cc:", "last collectives", "#1 barrier", "done", "not done"});
  }
}

TEST(StreamGroup, TheFailureHandlerHearsWhatTheStreamThrows) {
  std::atomic<int> heard{0};
  std::string text = ErrorOf(2, [&](DoubleRank& rank, ProcessGroup& group) {
    group.set_timeout(100ms);
    group.set_failure_handler([&](const std::string& error) {
      heard++;
      ExpectParts(error, {"barrier #1", "timed out waiting for rank 1", "at the site"});
    });
    if (rank.context.rank() == 1) return std::this_thread::sleep_for(400ms);
    group.Enqueue({.op = Op::kBarrier, .site = "the site"});
    rank.device.Synchronize();
  });
  ExpectParts(text, {"barrier #1", "timed out"});
  EXPECT_EQ(heard, 1);
}

TEST(StreamGroup, ARankThatThrowsWakesTheStreamsOfTheOthers) {
  for (int ranks = 2; ranks <= 4; ranks++)
    for (int round = 0; round < 10; round++) {
      auto begin = std::chrono::steady_clock::now();
      std::string text = ErrorOf(ranks, [&](DoubleRank& rank, ProcessGroup& group) {
        for (int i = 0;; i++) {
          if (group.rank() == ranks - 1 && i == round) throw std::runtime_error("the cause");
          group.Enqueue({.op = Op::kBarrier});
          if (i % 2) rank.device.Synchronize();
        }
      });
      EXPECT_EQ(text, "the cause");  // the error of the rank that failed, not of the ranks that noticed
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    }
}

TEST(StreamGroup, DifferentCallsAreAnError) {
  std::string text = ErrorOf(2, [](DoubleRank& rank, ProcessGroup& group) {
    Tensor x = Tensor::Zeros(DType::kF32, {4}, rank.device);
    group.Enqueue({.op = Op::kAllReduce, .in = x.data(), .out = x.data(), .count = 3 + rank.context.rank()});
    rank.device.Synchronize();
  });
  ExpectParts(text, {"all_reduce f32 x 3 sum", "all_reduce f32 x 4 sum", "calls"});
}

// After a failure the device runs no more work, because that would use results that never came.
TEST(StreamGroup, NothingIsDoneAfterAFailure) {
  std::string text = ErrorOf(1, [](DoubleRank& rank, ProcessGroup& group) {
    Tensor x = Tensor::Scalar(1, DType::kF64).To(rank.device);
    std::atomic<bool> ran{false};
    rank.device.Post([] { Fail("a kernel failed"); });
    rank.device.Post([&] { ran = true; });
    EXPECT_EQ(test::ErrorOf([&] { rank.device.Synchronize(); }), "a kernel failed");
    EXPECT_FALSE(ran);
    group.Enqueue({.op = Op::kAllReduce, .in = x.data(), .out = x.data(), .count = 1, .dtype = x.dtype()});
    EXPECT_EQ(test::ErrorOf([&] { x.Item(); }), "a kernel failed");
    group.Run({.op = Op::kBarrier});
  });
  EXPECT_EQ(text, "a kernel failed");
}

// ---- Who makes groups. ----

TEST(FactoryTable, AsksTheFactoryOfTheKind) {
  test::OnDoubles(2, {}, [](DoubleRank& rank) {
    EXPECT_EQ(rank.groups.kinds(), (std::vector<DeviceKind>{DeviceKind::kCpu, kDouble}));
    DeviceMesh both(rank.context, rank.groups, {{"a", "b"}, {1, 2}}, rank.groups.kinds());
    for (const char* axis : {"a", "b"}) {
      EXPECT_FALSE(both.Group(axis).is_stream_ordered());
      EXPECT_TRUE(both.Group(axis, kDouble).is_stream_ordered());
      EXPECT_EQ(both.Group(axis, kDouble).ranks(), both.Group(axis).ranks());
    }
    FactoryTable one;
    one.Add(DeviceKind::kCpu, std::make_unique<PlanGroupFactory>());
    EXPECT_EQ(test::ErrorOf([&] {
                one.Make("dp", {0, 1}, kDouble);
              }),
              "group \"dp\": nothing here moves cuda tensors between ranks; make the mesh for cpu");
  });
}

// In a group without stream order, ranks would exchange values that the device has not computed yet.
TEST(DeviceMesh, RefusesGroupsThatAreNotInTheOrderOfTheDevice) {
  test::OnDoubles(1, {}, [](DoubleRank& rank) {
    PlanGroupFactory unordered;
    std::string text = test::ErrorOf([&] { DeviceMesh(rank.context, unordered, {{"x"}, {1}}, {kDouble}); });
    ExpectParts(text, {"a double (cuda:0)", "expected a group \"x\" that is stream ordered, got one that is not",
                       "make the mesh with a factory for cuda tensors"});
  });
}

}  // namespace
}  // namespace weft
