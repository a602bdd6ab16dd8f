#include "weft/dist/group/local/local_group.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "collective_law.h"
#include "error_of.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/reduce.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

void OnWorld(int ranks, const std::function<void(ProcessGroup&)>& fn) {
  RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
    DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
    fn(mesh.World());
  });
}

// Returns the message of the error that ends the ranks, or "" if there is none.
std::string ErrorOf(int ranks, const std::function<void(ProcessGroup&)>& fn) {
  try {
    OnWorld(ranks, fn);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

void ExpectParts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

TEST(LocalGroup, EveryCollectiveEqualsItsReference) {
  for (int ranks = 1; ranks <= 4; ranks++)
    OnWorld(ranks, [](ProcessGroup& group) {
      for (DType dtype : test::kAllDTypes)
        for (int64_t n : {0, 1, 7, 1000, 20000}) {
          test::CheckCollectives(group, dtype, n);
          test::CheckUneven(group, dtype, n);
          test::CheckRing(group, dtype, n);
        }
      test::CheckBackground(group);
    });
}

TEST(LocalGroup, GroupsOfAnAxisAreTheRanksAlongIt) {
  RunRanks(4, [](Context& context, GroupFactory& groups) {
    for (int again = 0; again < 3; again++) {  // groups of equal name, one after the other
      DeviceMesh mesh(context, groups, {{"dp", "tp"}, {2, 2}});
      int r = context.rank(), dp = r / 2, tp = r % 2;
      EXPECT_EQ(mesh.Group("dp").ranks(), (std::vector<int>{tp, tp + 2}));
      EXPECT_EQ(mesh.Group("tp").ranks(), (std::vector<int>{2 * dp, 2 * dp + 1}));
      EXPECT_EQ(mesh.Group("dp").rank(), dp);
      int64_t sum = 0, mine = 1 << (4 * r);
      mesh.Group("dp").AllReduce(&mine, &sum, 1, DType::kI64);
      EXPECT_EQ(sum, (1 << (4 * tp)) + (1 << (4 * tp + 8)));
      mesh.World().AllReduce(&mine, &sum, 1, DType::kI64);
      EXPECT_EQ(sum, 0x1111);
    }
  });
}

TEST(LocalGroup, SixteenBitFloatsRoundOnce) {
  OnWorld(4, [](ProcessGroup& group) {
    // 256 + 1 + 1 + 1 gives 256 if every step rounds to bf16 (8 significant bits). It gives 260, rounded from 259, if
    // only the result is rounded.
    BF16 mine(group.rank() == 0 ? 256.f : 1.f), sum;
    group.AllReduce(&mine, &sum, 1, DType::kBF16);
    EXPECT_EQ(float(sum), float(BF16(259.f)));
    F16 half(group.rank() == 0 ? 2048.f : 1.f), half_sum;
    group.AllReduce(&half, &half_sum, 1, DType::kF16);
    EXPECT_EQ(float(half_sum), float(F16(2051.f)));
  });
}

TEST(LocalGroup, NaNWinsEveryReduction) {
  float nan = std::numeric_limits<float>::quiet_NaN(), one = 1, out;
  for (ReduceOp op : test::kAllReduceOps)
    for (bool nan_first : {true, false}) {
      const void* inputs[] = {nan_first ? &nan : &one, nan_first ? &one : &nan};
      ReduceInRankOrder(inputs, &out, 1, DType::kF32, op);
      EXPECT_TRUE(std::isnan(out));
    }
}

TEST(LocalGroup, ReducesInRankOrder) {
  OnWorld(4, [](ProcessGroup& group) {
    for (int64_t n : {1, 100, 5000}) {
      auto value = [](int r, int64_t i) { return float(std::sin(double(i * 4 + r)) * std::pow(10.0, r)); };
      std::vector<float> x, sum(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; i++) x.push_back(value(group.rank(), i));
      group.AllReduce(x.data(), sum.data(), n, DType::kF32);
      for (int64_t i = 0; i < n; i++) ASSERT_EQ(sum[size_t(i)], value(0, i) + value(1, i) + value(2, i) + value(3, i));
    }
  });
}

// In PT#118369 and nccl#1324 a hang was reported after minutes and named the wrong thread. Here the error comes within
// the timeout and names the missing rank, the call that it is late for and the line that made the call.
TEST(LocalGroup, PT118369_NCCL1324_AMissingRankIsNamedWithinTheTimeout) {
  auto start = std::chrono::steady_clock::now();
  std::string text = ErrorOf(3, [](ProcessGroup& group) {
    group.set_timeout(200ms);
    float x = 0;
    group.Barrier();
    group.AllReduce(&x, &x, 1, DType::kF32);
    if (group.rank() == 1)
      std::this_thread::sleep_for(600ms);
    else
      group.AllReduce(&x, &x, 1, DType::kF32);
  });
  auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, 5s);
  ExpectParts(text, {"all_reduce f32 x 1 sum #3 on group \"world\"", "of 3", "timed out", "rank 1 (last seen at #2)",
                     "last collectives", "#1 barrier", "#2 all_reduce", "done", "not done", "local_group_test.cc:"});
}

TEST(LocalGroup, ATimeoutInTheBackgroundEndsInTheWork) {
  std::string text = ErrorOf(2, [](ProcessGroup& group) {
    if (group.rank() == 0) {
      Collective call{.op = CollectiveOp::kBarrier, .timeout = 100ms, .site = "somewhere"};
      Work work = group.Start(call);
      EXPECT_THROW(work.Wait(1ms), Error);  // ends the wait, but not the call
      EXPECT_FALSE(work.Test());
      work.Wait();
    } else {
      std::this_thread::sleep_for(400ms);
    }
  });
  ExpectParts(text, {"barrier #1", "timed out", "at somewhere"});
}

TEST(LocalGroup, AShiftIsRecordedCountedAndTimesOut) {
  std::string text = ErrorOf(3, [](ProcessGroup& group) {
    double x = group.rank(), y = -1;
    group.Shift(&x, &y, 1, DType::kF64, -1);
    EXPECT_EQ(y, (group.rank() + 1) % 3);
    EXPECT_EQ(group.count(CollectiveOp::kShift), (CallCount{1, 8}));
    CallRecord last = group.recorder().Last(1).front();
    EXPECT_TRUE(last.op == CollectiveOp::kShift && last.count == 1 && last.dtype == DType::kF64 && last.done);
    group.set_timeout(100ms);
    if (group.rank() == 2)
      std::this_thread::sleep_for(400ms);
    else
      group.Shift(&x, &y, 1, DType::kF64);
  });
  ExpectParts(text, {"shift f64 x 1 peer 1 #2", "timed out", "rank 2 (last seen at #1)", "local_group_test.cc:"});
}

TEST(LocalGroup, AMessageThatIsNotSentTimesOut) {
  ExpectParts(ErrorOf(2,
                      [](ProcessGroup& group) {
                        group.set_timeout(100ms);
                        float x;
                        if (group.rank() == 0)
                          group.Recv(&x, 1, DType::kF32, 1);
                        else
                          std::this_thread::sleep_for(300ms);
                      }),
              {"recv f32 x 1 peer 1 #1", "timed out waiting for rank 1 to send"});
}

TEST(LocalGroup, ARankThatThrowsWakesTheOthers) {
  for (int ranks = 1; ranks <= 4; ranks++)
    for (int round = 0; round < 20; round++) {
      auto start = std::chrono::steady_clock::now();
      std::string text = ErrorOf(ranks, [&](ProcessGroup& group) {
        for (int i = 0;; i++) {
          if (group.rank() == ranks - 1 && i == round) throw std::runtime_error("the cause");
          if (round % 2)
            group.Start({.op = CollectiveOp::kBarrier}).Wait();
          else
            group.Barrier();
        }
      });
      EXPECT_EQ(text, "the cause");  // the error of the rank that failed, not of the ranks that noticed
      EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    }
}

TEST(LocalGroup, AnExceptionWithWorkInTheBackgroundDoesNotHang) {
  EXPECT_EQ(ErrorOf(3,
                    [](ProcessGroup& group) {
                      if (group.rank() == 2) return;
                      Work work = group.Start({.op = CollectiveOp::kBarrier});  // rank 2 never joins
                      if (group.rank() == 0) throw std::runtime_error("the cause");
                      work.Wait();
                    }),
            "the cause");
}

TEST(LocalGroup, DifferentCallsAreAnError) {
  auto differ = [](Collective a, Collective b) {
    return ErrorOf(2, [=](ProcessGroup& group) {
      char in[64] = {}, out[64];
      Collective call = group.rank() == 0 ? a : b;
      call.in = in;
      call.out = out;
      group.Run(call);
    });
  };
  Collective f32{.op = CollectiveOp::kAllReduce, .count = 3, .dtype = DType::kF32};
  Collective i32 = f32, longer = f32, max = f32, gather = f32, shift = f32, further = f32;
  i32.dtype = DType::kI32;
  longer.count = 4;
  max.reduce = ReduceOp::kMax;
  gather.op = CollectiveOp::kAllGather;
  shift.op = further.op = CollectiveOp::kShift;
  further.peer = 1;
  ExpectParts(differ(f32, i32), {"#1", "all_reduce f32 x 3 sum", "all_reduce i32 x 3 sum", "calls"});
  ExpectParts(differ(f32, longer), {"f32 x 3", "f32 x 4"});
  ExpectParts(differ(f32, max), {"sum", "max"});
  ExpectParts(differ(f32, gather), {"all_reduce", "all_gather"});
  ExpectParts(differ(shift, further), {"shift f32 x 3 peer 0", "shift f32 x 3 peer 1"});
  EXPECT_EQ(differ(f32, f32), "");
}

// One rank is wrong about one piece: `to` expects an element more than `from` has for it. The counts and tensors of
// each rank end with its call, so a rank that still reads those of another reads freed memory.
void CallWithOneWrongCount(ProcessGroup& group, CollectiveOp op, int64_t n, int from, int to) {
  std::vector<int64_t> send(size_t(group.size()), n), recv = send;
  if (group.rank() == to) recv[size_t(from)]++;
  std::vector<float> in(size_t(n * group.size())), out(in.size() + 1);
  if (op == CollectiveOp::kAllGatherV)
    group.AllGatherV(in.data(), out.data(), recv, DType::kF32);
  else
    group.AllToAllV(in.data(), send, out.data(), recv, DType::kF32);
}

TEST(LocalGroup, AWrongCountOfOnePieceIsAnErrorOnEveryRank) {
  for (CollectiveOp op : {CollectiveOp::kAllGatherV, CollectiveOp::kAllToAllV})
    for (int64_t n : {1, 20000})
      for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
          if (from == to && op == CollectiveOp::kAllGatherV) continue;  // one count says both
          OnWorld(4, [&](ProcessGroup& group) {
            std::string text = test::ErrorOf([&] { CallWithOneWrongCount(group, op, n, from, to); });
            ExpectParts(text,
                        {fmt::format("rank {} expects {} elements of rank {}, which has {} for it", to, n + 1, from, n)
                             .c_str()});
          });
        }
}

// A call of rank 1 ends by an abort while rank 0 may still read its memory. Rank 1 then overwrites it, as an unwinding
// rank frees it. Rank 0 must have read none of that.
TEST(LocalGroup, ACallThatIsAbortedEndsAfterAllReads) {
  constexpr int64_t kCount = 1 << 20;
  for (CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kReduce, CollectiveOp::kAllGather, CollectiveOp::kSend})
    for (int round = 0; round < 12; round++)
      OnWorld(2, [&](ProcessGroup& group) {
        bool leaves = group.rank() == 1;
        std::vector<float> in(size_t(kCount), 1), out(2 * in.size());
        Collective call{.op = op, .in = in.data(), .out = out.data(), .count = kCount};
        if (op == CollectiveOp::kSend) call.peer = 1 - group.rank();
        if (op == CollectiveOp::kSend && !leaves) call.op = CollectiveOp::kRecv;
        group.Barrier();
        std::thread stop([&] {
          std::this_thread::sleep_for(round * 100us);
          if (leaves) group.Abort("stop");
        });
        test::ErrorOf([&] { group.Run(call); });
        for (auto* memory : {&in, &out})
          if (leaves) std::fill(memory->begin(), memory->end(), 100);
        stop.join();
        EXPECT_TRUE(leaves || *std::max_element(out.begin(), out.end()) < 100) << Name(op) << " in round " << round;
      });
}

TEST(LocalGroup, WrongArgumentsAreRefused) {
  OnWorld(1, [](ProcessGroup& group) {
    float x = 0;
    EXPECT_THROW(group.AllReduce(&x, &x, -1, DType::kF32), Error);
    EXPECT_THROW(group.Broadcast(&x, 1, DType::kF32, 1), Error);
    EXPECT_THROW(group.Send(&x, 1, DType::kF32, 0), Error);
    EXPECT_THROW(group.AllGatherV(&x, &x, {}, DType::kF32), Error);
    group.AllReduce(&x, &x, 1, DType::kF32);  // a refused call does not count as a call
    EXPECT_EQ(group.count(CollectiveOp::kAllReduce).calls, 1);
  });
}

TEST(DeviceMesh, RefusesWhatIsNoMesh) {
  RunRanks(1, [](Context& context, GroupFactory& groups) {
    auto refuses = [&](const MeshShape& shape, const char* why) {
      try {
        DeviceMesh mesh(context, groups, shape);
        ADD_FAILURE() << "expected: " << why;
      } catch (const Error& e) {
        ExpectParts(e.what(), {"mesh at local_group_test.cc:", why});
      }
    };
    refuses({{"a", "a"}, {1, 1}}, "expected a name of its own for each axis, got \"a\" for axes 0 and 1");
    refuses({{""}, {1}}, "expected a name of its own for each axis, got \"\" for axis 0");
    refuses({{"a"}, {1, 1}}, "got 1 names and 2 sizes");
    refuses({{"a"}, {0}}, "expected a size of at least 1 for axis \"a\", got 0");
    refuses({{"a"}, {2}},
            "a=2 needs 2 ranks, got 1 that are running; start 2 with mpirun -np 2, or change a size: "
            "DeviceMesh(context, {{\"a\", -1}}) takes all");
    DeviceMesh named(context, groups, {{"dp", "tp"}, {1, 1}});
    ExpectParts(test::ErrorOf([&] { named["tpp"]; }),
                {"mesh at local_group_test.cc:",
                 "expected one of the axes dp, tp of dp=1 x tp=1, got \"tpp\"; did you mean \"tp\"?"});
    DeviceMesh none(context, groups, {});
    EXPECT_EQ(none.size(), 1);
    none.World().Barrier();
    EXPECT_THROW(none.Group("a"), Error);
    EXPECT_THROW(none.World(DeviceKind::kCuda), Error);
  });
}

// In-process ranks copy with the host's CPU, which would fault on a GPU's memory.
TEST(LocalGroup, RefusesDevicesThatTheHostCannotRead) {
  std::string expected =
      "group \"dp\": ranks of one process exchange tensors of the cpu only, got cuda; make the mesh for the cpu";
  auto text = [](const std::function<void()>& make) -> std::string {
    try {
      make();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  for (int ranks : {1, 2})
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      EXPECT_EQ(text([&] { DeviceMesh(context, groups, {{"dp"}, {ranks}}, {DeviceKind::kCuda}); }), expected);
    });
  EXPECT_EQ(text([] { MakeSelfGroup("dp", 0, DeviceKind::kCuda); }), expected);
}

TEST(CallRecorder, KeepsTheLastCalls) {
  CallRecorder recorder(4);
  int group = recorder.AddGroup("g");
  uint64_t first = 0;
  for (uint64_t i = 1; i <= 6; i++) {
    uint64_t ticket = recorder.Begin(group, i,
                                     {.op = CollectiveOp::kAllGather,
                                      .count = int64_t(i),
                                      .site = "a site longer than what a record can hold of it, by far"});
    if (i == 1)
      first = ticket;
    else
      recorder.Finish(ticket);
  }
  ASSERT_EQ(recorder.Last(10).size(), 5u);  // the unfinished call and the last four
  EXPECT_TRUE(recorder.Last(10)[0].sequence == 1 && !recorder.Last(10)[0].done);
  recorder.Finish(first);
  auto last = recorder.Last(10);
  ASSERT_EQ(last.size(), 4u);
  for (size_t i = 0; i < 4; i++) EXPECT_TRUE(last[i].sequence == i + 3 && last[i].done);
  EXPECT_EQ(recorder.Last(2).front().sequence, 5u);
}

}  // namespace
}  // namespace weft
