// Windows of NCCL without a GPU: calls by copy engines and by symmetric kernels, on device doubles and a fake NCCL
// library that notes what breaks NCCL's rules for windows (tests/double/fake_nccl.cc).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "double/group_double.h"
#include "double/nccl_double.h"
#include "error_of.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/dist/group/nccl/nccl_windows.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::DoubleRank;
using Op = CollectiveOp;

constexpr DeviceKind kDouble = DeviceKind::kCuda;
constexpr size_t kBytes = 1 << 20;

// A request that owns its uses.
struct Request {
  std::vector<WindowUse> uses;
  size_t bytes = kBytes;
  uint64_t layout = 0;

  operator WindowRequest() const { return {.uses = uses, .bytes = bytes, .layout = layout}; }
};
Request Of(WindowEngine engine, const std::vector<int>& axes, size_t bytes = kBytes) {
  Request request{.bytes = bytes};
  for (int axis : axes) request.uses.push_back({axis, engine});
  return request;
}
Request Copies(const std::vector<int>& axes, size_t bytes = kBytes) { return Of(WindowEngine::kCopies, axes, bytes); }

// Runs the body on every rank. Afterwards no rule of NCCL was broken, and all windows and their memory are gone.
void OnNccl(const MeshShape& shape, const std::function<void(DoubleRank&, DeviceMesh&)>& body, int most_us = 0,
            int hosts = 1) {
  int64_t before = test::CountFakeCopies().blocks;
  test::OnDoubles(shape.num_ranks(), {.most_us = most_us, .groups = test::NcclGroups, .hosts = hosts},
                  [&](DoubleRank& rank) {
                    DeviceMesh mesh(rank.context, rank.groups, shape, rank.groups.kinds());
                    body(rank, mesh);
                  });
  EXPECT_EQ(test::FakeNcclFaults(), "");
  EXPECT_EQ(test::CountFakeCopies().blocks, before);
}

// A bucket of gathers of bytes. The chunks have odd sizes, and lie at odd places of `memory`, which begin with `at`.
// Inputs lie in memory of their own unless `covered`.
struct Bucket {
  std::vector<int64_t> counts;
  std::vector<size_t> ins, outs;
  std::vector<BufferPtr> apart;
  std::vector<Collective> calls;

  Bucket(DoubleRank& rank, const ProcessGroup& group, char* memory, std::vector<int64_t> sizes, bool covered,
         size_t at = 0)
      : counts(std::move(sizes)) {
    for (int64_t count : counts) {
      char* in = covered ? memory + at : nullptr;
      if (covered) at += size_t(count);
      if (!covered) in = static_cast<char*>(apart.emplace_back(rank.device.Allocate(size_t(count)))->data());
      calls.push_back({.op = Op::kAllGather, .in = in, .out = memory + at, .count = count, .dtype = DType::kU8});
      at += size_t(count * group.size());
    }
  }
  static uint8_t ValueOf(int rank, size_t i, int round) { return uint8_t(1 + rank * 50 + int(i) * 7 + round); }
  void Fill(DoubleRank& rank, const ProcessGroup& group, int round) const {
    for (size_t i = 0; i < calls.size(); i++) {
      rank.device.Fill(calls[i].out, 0, size_t(counts[i] * group.size()));
      rank.device.Fill(const_cast<void*>(calls[i].in), ValueOf(group.rank(), i, round), size_t(counts[i]));
    }
  }
  void Check(DoubleRank& rank, const ProcessGroup& group, int round) const {
    for (size_t i = 0; i < calls.size(); i++) {
      std::vector<uint8_t> got(size_t(counts[i] * group.size()));
      rank.device.Copy(got.data(), calls[i].out, got.size());
      for (size_t byte = 0; byte < got.size(); byte++)
        ASSERT_EQ(got[byte], ValueOf(int(byte / size_t(counts[i])), i, round)) << "gather " << i << ", byte " << byte;
    }
  }
};

const std::vector<std::vector<int64_t>> kSizes{{1}, {4096}, {333, 1, 70'001}, {5, 5, 5, 5}};

// Whether issued at once or replayed, and with inputs in windows or not.
TEST(NcclCopies, GatherWhatKernelsDo) {
  int64_t made = 0;
  for (int ranks = 2; ranks <= 4; ranks++) {
    int64_t before = test::CountFakeCopies().gathers;
    OnNccl(
        {{"x"}, {ranks}},
        [&](DoubleRank& rank, DeviceMesh& mesh) {
          ProcessGroup& group = mesh.World(kDouble);
          ProcessGroup& axis = mesh.Group("x", kDouble);
          BufferPtr memory = AllocateWindows(mesh, Copies({0})).value();
          for (const auto& sizes : kSizes)
            for (bool covered : {true, false}) {
              Bucket bucket(rank, group, static_cast<char*>(memory->data()), sizes, covered);
              int round = 0;
              auto check = [&](const std::function<void()>& issue) {
                bucket.Fill(rank, axis, ++round);
                issue();
                bucket.Check(rank, axis, round);
              };
              for (int i = 0; i < 2; i++) check([&] { axis.EnqueueAll(bucket.calls); });
              auto recording = rank.device.Record([&] { axis.EnqueueAll(bucket.calls); });
              for (int i = 0; i < 3; i++) check([&] { recording->Replay(); });
            }
        },
        30);
    int64_t calls = 0;
    for (const auto& sizes : kSizes) calls += int64_t(sizes.size()) * 2 * 5;
    EXPECT_EQ(test::CountFakeCopies().gathers - before, ranks * (calls + 2)) << "and two trials";
    made += test::CountFakeCopies().gathers - before;
  }
  fmt::print("shown: {} gathers by copy engines have the bytes of the ranks\n", made);
}

// Those outside of the window, or with too large an input outside, go by kernels; so do all other calls. The results
// are the same.
TEST(NcclCopies, TakeOnlyWhatFits) {
  OnNccl({{"x"}, {2}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
    ProcessGroup& group = mesh.Group("x", kDouble);
    constexpr size_t kLarge = 4 * kNcclStaging;
    BufferPtr memory = AllocateWindows(mesh, Copies({0}, kLarge)).value();
    BufferPtr outside = rank.device.Allocate(kLarge);
    auto copied = [&](const BufferPtr& at, std::vector<int64_t> sizes, bool covered) {
      group.Run({.op = Op::kBarrier});
      int64_t before = test::CountFakeCopies().gathers;
      group.Run({.op = Op::kBarrier});
      Bucket bucket(rank, group, static_cast<char*>(at->data()), std::move(sizes), covered);
      bucket.Fill(rank, group, 1);
      group.EnqueueAll(bucket.calls);
      bucket.Check(rank, group, 1);
      group.Run({.op = Op::kBarrier});
      return (test::CountFakeCopies().gathers - before) / 2;
    };
    EXPECT_EQ(copied(memory, {500}, true), 1);
    EXPECT_EQ(copied(memory, {3, 1, 496}, true), 3);
    EXPECT_EQ(copied(outside, {5000}, true), 0);
    EXPECT_EQ(copied(memory, {int64_t(kNcclStaging)}, false), 1);
    EXPECT_EQ(copied(memory, {int64_t(kNcclStaging) + 1}, false), 0);
    EXPECT_EQ(copied(memory, {int64_t(kNcclStaging), 1}, false), 0);
    EXPECT_EQ(copied(memory, {int64_t(kNcclStaging) + 1}, true), 1);
    Tensor t = Tensor::FromDoubles(std::vector<double>{1, 2}, DType::kF32, {2}).To(rank.device);
    group.Run({.op = Op::kAllReduce, .in = t.data(), .out = t.data(), .count = 2, .dtype = DType::kF32});
    EXPECT_EQ(t.To(CpuRuntime()).ToDoubles(), (std::vector<double>{2, 4}));
  });
  EXPECT_EQ(test::FakeNcclFaults(), "");
}

// One memory may have windows of several axes, and an axis windows of several memories.
TEST(NcclCopies, AxesAndMemoriesShareNothing) {
  OnNccl(
      {{"a", "b"}, {2, 2}},
      [&](DoubleRank& rank, DeviceMesh& mesh) {
        std::vector<BufferPtr> memories;
        for (int i = 0; i < 3; i++) memories.push_back(AllocateWindows(mesh, Copies({0, 1})).value());
        memories.erase(memories.begin());
        for (int round = 0; round < 4; round++)
          for (const BufferPtr& memory : memories)
            for (int axis : {0, 1}) {
              ProcessGroup& group = mesh.Group(axis, kDouble);
              Bucket bucket(rank, group, static_cast<char*>(memory->data()), {333, 70'001}, round % 2 == 0,
                            size_t(axis) * kBytes / 2);
              bucket.Fill(rank, group, round);
              group.EnqueueAll(bucket.calls);
              bucket.Check(rank, group, round);
            }
      },
      30);
}

// Those outside of the window go by kernels.
TEST(NcclCopies, ExchangeWhatKernelsDo) {
  for (int ranks = 2; ranks <= 4; ranks++)
    OnNccl(
        {{"x"}, {ranks}},
        [&](DoubleRank& rank, DeviceMesh& mesh) {
          ProcessGroup& group = mesh.Group("x", kDouble);
          BufferPtr memory = AllocateWindows(mesh, Copies({0})).value(), plain = rank.device.Allocate(kBytes);
          auto exchanges = [&] {
            group.Run({.op = Op::kBarrier});
            return test::CountFakeCopies().exchanges;
          };
          for (int64_t count : {1, 333, 20'000})
            for (bool in : {true, false})
              for (bool out : {true, false}) {
                char *from = static_cast<char*>((in ? memory : plain)->data()),
                     *to = static_cast<char*>((out ? memory : plain)->data()) + count * ranks;
                Collective call{.op = Op::kAllToAll, .in = from, .out = to, .count = count, .dtype = DType::kU8};
                auto chunk = size_t(count);
                for (int to_rank = 0; to_rank < ranks; to_rank++)
                  rank.device.Fill(from + to_rank * count, uint8_t(1 + group.rank() * 10 + to_rank), chunk);
                int64_t before = exchanges();
                auto recording = rank.device.Record([&] { group.EnqueueAll({&call, 1}); });
                for (int i = 0; i < 2; i++) {
                  rank.device.Fill(to, 0, chunk * size_t(ranks));
                  recording->Replay();
                  std::vector<uint8_t> got(chunk * size_t(ranks));
                  rank.device.Copy(got.data(), to, got.size());
                  for (size_t byte = 0; byte < got.size(); byte++)
                    ASSERT_EQ(got[byte], uint8_t(1 + int(byte / chunk) * 10 + group.rank())) << "byte " << byte;
                }
                EXPECT_EQ(exchanges() - before, in && out ? 2 * ranks : 0) << count;
              }
        },
        30);
}

// ---- Symmetric kernels. ----

// The collectives that have a symmetric kernel, of whole numbers, over the ranks of a group.
std::vector<Collective> CasesAt(char* memory, int ranks, DType dtype, int64_t count) {
  auto bytes = size_t(count) * SizeOf(dtype);
  char* out = memory + bytes * size_t(ranks);
  return {{.op = Op::kAllGather, .in = memory, .out = out, .count = count, .dtype = dtype},
          {.op = Op::kAllReduce, .in = memory, .out = out, .count = count, .dtype = dtype},
          {.op = Op::kAllReduce, .in = memory, .out = memory, .count = count, .dtype = dtype},
          {.op = Op::kReduceScatter, .in = memory, .out = out, .count = count, .dtype = dtype}};
}
// Fills what a call reads and writes, makes it, and returns all bytes of `memory`.
std::vector<char> ResultOf(DoubleRank& rank, ProcessGroup& group, char* memory, const Collective& call) {
  auto ranks = size_t(group.size()), bytes = 2 * ranks * size_t(call.count) * SizeOf(call.dtype);
  std::vector<double> values(size_t(call.count) * 2 * ranks);
  for (size_t i = 0; i < values.size(); i++) values[i] = double((i + size_t(group.rank()) * 3) % 7);
  Tensor t = Tensor::FromDoubles(values, call.dtype, {int64_t(values.size())});
  rank.device.Copy(memory, t.data(), bytes);
  group.EnqueueAll({&call, 1});
  std::vector<char> got(bytes);
  rank.device.Copy(got.data(), memory, bytes);
  return got;
}

// They give what rings do, whether copy engines make the gathers of the same memory or not. All other calls go by
// rings.
TEST(NcclWindows, SymmetricKernelsGiveWhatRingsDo) {
  using Engine = WindowEngine;
  int64_t made = 0;
  for (int ranks = 2; ranks <= 4; ranks++)
    for (bool copied : {false, true}) {
      test::FakeCopies before = test::CountFakeCopies();
      int64_t calls = 0;
      OnNccl({{"x"}, {ranks}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
        ProcessGroup& group = mesh.Group("x", kDouble);
        Request request = Of(Engine::kKernels, {0});
        if (copied) request.uses.insert(request.uses.begin(), {0, Engine::kCopies});
        BufferPtr memory = AllocateWindows(mesh, request).value(), plain = rank.device.Allocate(kBytes);
        for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32})
          for (int64_t count : {1, 333, 5000}) {
            auto *in = static_cast<char*>(memory->data()), *apart = static_cast<char*>(plain->data());
            std::vector<Collective> cases = CasesAt(in, ranks, dtype, count),
                                    want = CasesAt(apart, ranks, dtype, count);
            for (size_t i = 0; i < cases.size(); i++) {
              EXPECT_EQ(ResultOf(rank, group, in, cases[i]), ResultOf(rank, group, apart, want[i]))
                  << Name(dtype) << " x " << count << ", case " << i;
              bool sums = dtype == DType::kF32 || dtype == DType::kBF16;
              if (rank.context.rank() == 0) calls += cases[i].op == Op::kAllGather ? !copied : sums;
            }
          }
      });
      test::FakeCopies after = test::CountFakeCopies();
      EXPECT_EQ(after.symmetric - before.symmetric, ranks * (calls + 2)) << "and two trials";
      EXPECT_EQ(after.gathers - before.gathers, copied ? ranks * (12 + 2) : 0);
      made += after.symmetric - before.symmetric;
    }
  fmt::print("shown: {} calls by symmetric kernels have the bytes of rings\n", made);
}

// ---- What NCCL refuses. ----

// Asks for windows and returns the fault that all ranks give. Kernels then gather.
std::string FaultOf(const MeshShape& shape, const std::function<Request(int rank)>& request, int hosts = 1) {
  std::mutex mutex;
  std::vector<std::string> faults;
  OnNccl(
      shape,
      [&](DoubleRank& rank, DeviceMesh& mesh) {
        absl::StatusOr<BufferPtr> memory = AllocateWindows(mesh, request(rank.context.rank()));
        {
          std::lock_guard lock(mutex);
          faults.emplace_back(memory.status().message());
        }
        memory = absl::CancelledError();
        ProcessGroup& group = mesh.Group(0, kDouble);
        BufferPtr plain = rank.device.Allocate(kBytes);
        Bucket bucket(rank, group, static_cast<char*>(plain->data()), {333, 7001}, true);
        bucket.Fill(rank, group, 1);
        group.EnqueueAll(bucket.calls);
        bucket.Check(rank, group, 1);
      },
      0, hosts);
  for (const std::string& fault : faults) EXPECT_EQ(fault, faults[0]) << "ranks disagree";
  return faults[0];
}

Request Usual(int) { return Copies({0}); }

TEST(NcclCopies, WhatNcclRefusesIsOneFaultOfAllRanks) {
  const std::pair<const char*, const char*> kCases[] = {{"split", "ncclCommSplit: NCCL says invalid argument"},
                                                        {"memory", "ncclMemAlloc of 6.0 MiB: NCCL says"},
                                                        {"register", "ncclCommWindowRegister: NCCL says"},
                                                        {"copies", "all_gather in a window: NCCL says"}};
  auto both = [](int) {
    Request request = Copies({0});
    request.uses.push_back({0, WindowEngine::kKernels});
    return request;
  };
  for (auto [how, text] : kCases)
    for (int ranks = 2; ranks <= 4; ranks++) {
      test::FailingNccl failing(how);
      EXPECT_NE(FaultOf({{"x"}, {ranks}}, Usual).find(text), std::string::npos) << how;
      EXPECT_NE(FaultOf({{"x"}, {ranks}}, both).find(text), std::string::npos) << how;
    }
  auto kernels = [](int) { return Of(WindowEngine::kKernels, {0}); };
  test::FailingNccl failing("register");
  EXPECT_NE(FaultOf({{"x"}, {2}}, kernels).find("ncclCommWindowRegister: NCCL says"), std::string::npos);
}

TEST(NcclCopies, RanksNeedTheSameLayout) {
  auto other = [](int rank) {
    Request request = Usual(rank);
    request.layout = rank == 2 ? 7 : 5;
    return request;
  };
  EXPECT_EQ(FaultOf({{"x"}, {3}}, other),
            "expected collectives over x at the same offsets on all ranks, got others on rank 2 than on rank 0");
  auto by_column = [](int rank) {
    Request request = Usual(rank);
    request.layout = uint64_t(rank % 2);
    request.bytes = kBytes << rank % 2;
    return request;
  };
  EXPECT_EQ(FaultOf({{"x", "y"}, {2, 2}}, by_column), "");
  EXPECT_EQ(FaultOf({{"x", "y"}, {1, 2}}, Usual), "group \"x\" has one rank");
  // Over x ranks 0 and 2 find no fault. They still meet over y with the ranks that do.
  auto last = [](int rank) {
    Request request = Copies({0, 1});
    request.layout = uint64_t(rank == 3);
    return request;
  };
  EXPECT_NE(FaultOf({{"x", "y"}, {2, 2}}, last).find("at the same offsets on all ranks, got others on rank 3"),
            std::string::npos);
}

// Ranks 0 and 2 are on one host, and ranks 1 and 3 on another.
TEST(NcclCopies, AGroupNeedsOneHost) {
  EXPECT_EQ(FaultOf({{"x", "y"}, {2, 2}}, Usual, 2), "");
  EXPECT_EQ(FaultOf(
                {{"x", "y"}, {1, 4}}, [](int) { return Copies({1}); }, 2),
            "the ranks of group \"y\" are on several hosts, and a GPU reaches the memory of one host only");
}

// Kernels leave such a group out, if another is on one host.
TEST(NcclWindows, SymmetricKernelsLeaveOutWhatIsOnSeveralHosts) {
  auto of = [](std::vector<int> axes) { return [axes](int) { return Of(WindowEngine::kKernels, axes); }; };
  EXPECT_EQ(FaultOf({{"x", "y"}, {2, 2}}, of({0, 1}), 2), "");
  EXPECT_NE(FaultOf({{"x", "y"}, {1, 4}}, of({1}), 2).find("are on several hosts"), std::string::npos);
}

TEST(NcclCopies, ALibraryWithoutWindowsIsNamed) {
  auto whole = NcclLibrary::Open(2, true, WEFT_FAKE_NCCL), old = NcclLibrary::Open(2, true, WEFT_FAKE_NCCL_NO_WINDOWS);
  ASSERT_TRUE(whole.ok() && old.ok());
  EXPECT_TRUE((*whole)->HasWindows().ok());
  EXPECT_EQ((*old)->HasWindows().message(), "NCCL 2.28.9 has no ncclCommWindowDeregister");
}

TEST(NcclCopies, TheirMemoryIsWhatIsPlanned) {
  for (size_t axes : {1, 2, 3})
    for (size_t bytes : {size_t(1), size_t(4096), kBytes, size_t(3) << 30, (size_t(3) << 30) + 1}) {
      size_t all = WindowBytes(bytes, axes);
      EXPECT_EQ(all % kNcclGranularity, 0u);
      EXPECT_GE(all, bytes + axes * kNcclStaging);
      EXPECT_LT(all, bytes + axes * kNcclStaging + kNcclGranularity + nccl::kWindowAlign);
      for (size_t i = 0; i < axes; i++) EXPECT_LE(WindowOffset(bytes, i) + kNcclStaging, WindowOffset(bytes, i + 1));
      EXPECT_GE(WindowOffset(bytes, 0), bytes);
    }
}

// ---- Failures of ranks. ----

// Windows are neither deregistered nor freed then, because other ranks may still write to them. Calls that follow are
// refused. Symmetric kernels, like copy engines, wait for ever, so the abort of their communicator must not be waited
// for.
void CheckDeath(WindowEngine engine, bool replayed) {
  int64_t before = test::CountFakeCopies().blocks;
  auto begin = std::chrono::steady_clock::now();
  std::string text = test::ErrorOf([&] {
    OnNccl({{"x"}, {3}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
      ProcessGroup& group = mesh.World(kDouble);
      ProcessGroup& axis = mesh.Group("x", kDouble);
      BufferPtr memory = AllocateWindows(mesh, Of(engine, {0})).value();
      group.set_timeout(200ms);
      axis.set_timeout(200ms);
      Bucket bucket(rank, axis, static_cast<char*>(memory->data()), {333, 7001}, true);
      bucket.Fill(rank, axis, 1);
      axis.EnqueueAll(bucket.calls);
      auto recording = rank.device.Record([&] { axis.EnqueueAll(bucket.calls); });
      rank.device.Synchronize();
      if (rank.context.rank() == 1) return std::this_thread::sleep_for(1s);
      replayed ? recording->Replay() : axis.EnqueueAll(bucket.calls);
      try {
        rank.device.Synchronize();
      } catch (const std::exception&) {
        EXPECT_NE(test::ErrorOf([&] { axis.EnqueueAll(bucket.calls); }), "");
        throw;
      }
    });
  });
  EXPECT_NE(text.find("all_gather u8 x 333 #3 on group \"x\""), std::string::npos) << text;
  EXPECT_NE(text.find("timed out"), std::string::npos) << text;
  EXPECT_EQ(test::FakeNcclFaults(), "");
  EXPECT_GE(test::CountFakeCopies().blocks - before, 1) << "of a rank that waited";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(NcclWindows, ARankThatDiesEndsTheOthers) {
  for (WindowEngine engine : {WindowEngine::kCopies, WindowEngine::kKernels})
    for (bool replayed : {false, true}) CheckDeath(engine, replayed);
}

// A rank that fails between steps lets its last step end.
TEST(NcclCopies, WhoUnwindsLetsItsReplayEnd) {
  int64_t before = test::CountFakeCopies().gathers;
  std::string text = test::ErrorOf([&] {
    OnNccl({{"x"}, {2}}, [&](DoubleRank& rank, DeviceMesh& mesh) {
      ProcessGroup& group = mesh.Group("x", kDouble);
      BufferPtr memory = AllocateWindows(mesh, Usual(0)).value();
      Bucket bucket(rank, group, static_cast<char*>(memory->data()), {333}, true);
      auto recording = rank.device.Record([&] { group.EnqueueAll(bucket.calls); });
      if (rank.context.rank() == 1) std::this_thread::sleep_for(300ms);
      recording->Replay();
      if (rank.context.rank() == 0) throw Error("the cause");
      rank.device.Synchronize();
    });
  });
  EXPECT_EQ(text, "the cause");
  EXPECT_EQ(test::CountFakeCopies().gathers - before, 2 * 3) << "two trials and one replay of two ranks";
  EXPECT_EQ(test::FakeNcclFaults(), "");
}

}  // namespace
}  // namespace weft
