// weft bench: laws of bandwidths over all collectives and numbers of ranks, the check of results, times, lists of
// numbers, and the lines for other programs. bench_command_test.sh runs the program.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "double/group_double.h"
#include "double/kernels_double.h"
#include "double/nccl_double.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/bus_bandwidth.h"
#include "launcher/bench/collective_case.h"
#include "launcher/bench/number_list.h"
#include "launcher/report/picture.h"
#include "launcher/report/scaling.h"
#include "train/temp_folder.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::vector<CollectiveOp> AllOps() {
  std::vector<CollectiveOp> ops;
  for (int op = 0; op < kNumCollectiveOps; op++) ops.push_back(CollectiveOp(op));
  return ops;
}

// Every rank must send or receive the larger buffer except for its own piece, which stays where it is. The test takes
// the buffers from the definition of the call, so it does not depend on the factors.
TEST(BusBandwidth, IsTheShareThatLeavesOrReachesARank) {
  for (int ranks = 1; ranks <= 64; ranks++) {
    const double size = 64 * 63;
    double own = size / ranks;
    for (CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kAllGatherV, CollectiveOp::kReduceScatter,
                            CollectiveOp::kAllToAll, CollectiveOp::kAllToAllV})
      EXPECT_NEAR(BusFactor(op, ranks) * size, size - own, 1e-9) << Name(op) << " on " << ranks;
    // A sum that all ranks get needs at least the traffic of a reduce-scatter followed by an all-gather.
    EXPECT_DOUBLE_EQ(BusFactor(CollectiveOp::kAllReduce, ranks),
                     BusFactor(CollectiveOp::kReduceScatter, ranks) + BusFactor(CollectiveOp::kAllGather, ranks));
    for (CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce, CollectiveOp::kShift, CollectiveOp::kSend,
                            CollectiveOp::kRecv})
      EXPECT_EQ(BusFactor(op, ranks), 1) << Name(op) << " on " << ranks;
  }
}

// The values of nccl-tests' page for 2 and 8 ranks.
TEST(BusBandwidth, AgreesWithNcclTests) {
  EXPECT_EQ(BusFactor(CollectiveOp::kAllReduce, 2), 1);
  EXPECT_EQ(BusFactor(CollectiveOp::kAllReduce, 8), 1.75);
  EXPECT_EQ(BusFactor(CollectiveOp::kAllGather, 8), 0.875);
  EXPECT_EQ(BusFactor(CollectiveOp::kBarrier, 8), 0);
}

TEST(BusBandwidth, GrowsWithTheRanksToItsBound) {
  for (CollectiveOp op : AllOps())
    for (int ranks = 2; ranks <= 1024; ranks *= 2) {
      EXPECT_GE(BusFactor(op, ranks), BusFactor(op, ranks / 2)) << Name(op);
      EXPECT_LE(BusFactor(op, ranks), op == CollectiveOp::kAllReduce ? 2 : 1) << Name(op);
    }
}

bool Exists(CollectiveOp op, int ranks) { return !IsPointToPoint(op) || ranks > 1; }

// Runs each case twice, because a case is reset between runs.
TEST(CollectiveCase, FindsRightResultsRight) {
  for (int ranks : {1, 2, 3, 5})
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
      for (CollectiveOp op : AllOps())
        for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU8})
          for (int64_t bytes : {1, 1000, 4099}) {
            if (!Exists(op, ranks)) continue;
            CollectiveCase::What what{op, dtype, bytes};
            BufferPtr memory;  // given or the case's own
            if (bytes == 1000) memory = CpuRuntime().Allocate(CollectiveCase::MemoryOf(mesh.World(), what));
            CollectiveCase one(mesh.World(), CpuRuntime(), what, memory);
            for (int again = 0; again < 2; again++) {
              one.Reset();
              one.Enqueue();
              EXPECT_EQ(one.Wrong(), 0) << Name(op) << " " << Name(dtype) << " " << bytes << " on " << ranks;
            }
            EXPECT_LE(one.bytes(), std::max<int64_t>(bytes, int64_t(SizeOf(dtype)) * ranks));
          }
    });
}

TEST(CollectiveCase, FindsACallThatWasLeftOut) {
  constexpr int kRanks = 4;
  RunRanks(kRanks, [&](Context& context, GroupFactory& groups) {
    for (CollectiveOp op : AllOps()) {
      DeviceMesh mesh(context, groups, {{"x"}, {kRanks}});
      mesh.set_call_filter([&](const ProcessGroup& group, Collective&) { return group.name() != "x"; });
      for (DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kU8}) {
        CollectiveCase one(mesh.Group("x"), CpuRuntime(), {op, dtype, 1 << 12});
        one.Reset();
        one.Enqueue();
        int64_t wrong = one.Wrong();
        mesh.World().AllReduce(&wrong, &wrong, 1, DType::kI64);
        EXPECT_EQ(wrong > 0, op != CollectiveOp::kBarrier) << Name(op) << " " << Name(dtype);
      }
    }
  });
}

TEST(CallTimes, QuantilesAreThoseOfTheSortedTimes) {
  CallTimes times;
  for (int n = 1; n <= 100; n++) {
    times.ms.push_back(n);
    EXPECT_EQ(times.Min(), 1);
    EXPECT_EQ(times.Median(), (n + 1) / 2.0);
    auto within = std::count_if(times.ms.begin(), times.ms.end(), [&](double ms) { return ms <= times.P90(); });
    EXPECT_GE(double(within), 0.9 * n);
    EXPECT_LT(double(within - 1), 0.9 * n);
  }
}

// A repeat takes as long as its slowest rank. So the sleep of one rank is a lower bound of the time on every rank.
TEST(Measure, TakesTheSlowestRank) {
  constexpr double kSleepMs = 2;
  RunRanks(3, [&](Context& context, GroupFactory& groups) {
    DeviceMesh mesh(context, groups, {{"x"}, {3}});
    int64_t made = 0;
    auto run = [&](int64_t calls) {
      made += calls;
      if (context.rank() == 1) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(kSleepMs));
    };
    CallTimes times = Measure(CpuRuntime(), mesh.World(), {.repeats = 7}, run);
    EXPECT_EQ(times.ms.size(), 7u);
    EXPECT_TRUE(std::is_sorted(times.ms.begin(), times.ms.end()));
    EXPECT_GE(times.Min(), kSleepMs);
    EXPECT_EQ(times.calls, 1);  // a call of this length is a repeat by itself
    EXPECT_EQ(made, 3 + 1 + 7);
  });
}

// A call that is too short for the clock runs many times per repeat, the same number on all ranks. A rank that loses
// its core meanwhile takes its call for a long one, so the largest of some numbers counts.
TEST(Measure, MakesManyShortCalls) {
  std::mutex mutex;
  int64_t most = 0;
  for (int tries = 0; tries < 5; tries++) {
    std::set<int64_t> calls;
    RunRanks(2, [&](Context& context, GroupFactory& groups) {
      DeviceMesh mesh(context, groups, {{"x"}, {2}});
      CallTimes times = Measure(CpuRuntime(), mesh.World(), {.seconds = 0.01}, [](int64_t) {});
      std::lock_guard lock(mutex);
      calls.insert(times.calls);
    });
    EXPECT_EQ(calls.size(), 1u);
    most = std::max(most, *calls.begin());
  }
  EXPECT_GT(most, 1000);
}

TEST(NumberList, ReadsBytes) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(*ParseBytes("bytes", "4", 2), Sizes({4}));
  EXPECT_EQ(*ParseBytes("bytes", "1K,3M", 2), Sizes({1 << 10, 3 << 20}));
  EXPECT_EQ(*ParseBytes("bytes", "1M..64M", 4), Sizes({1 << 20, 4 << 20, 16 << 20, 64 << 20}));
  EXPECT_EQ(*ParseBytes("bytes", "1..10", 3), Sizes({1, 3, 9}));
  for (const char* bad : {"", "0", "-1", "1,", "1X", "M", "2M..1M", "1..2..3", "..4", "1025G", "9999999999999999999"}) {
    absl::Status status = ParseBytes("bytes", bad, 2).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_EQ(std::string(status.message()).find("command line: bytes: expected sizes"), 0u) << status;
  }
}

TEST(NumberList, AlignsLists) {
  using Lists = std::vector<std::vector<int64_t>>;
  std::vector<KeyText> lists{{"m", "1,2,3"}, {"n", "7"}, {"k", "4,5,6"}};
  EXPECT_EQ(*ParseAligned(lists), (Lists{{1, 2, 3}, {7, 7, 7}, {4, 5, 6}}));
  lists[2].text = "4,5";
  EXPECT_EQ(ParseAligned(lists).status().message(), "command line: k: expected 1 or 3 numbers, as m has, got \"4,5\"");
}

// Returns the lines that a kind of benchmark prints, for `ranks` doubles of a GPU with NCCL's groups.
std::vector<Json> LinesOnDoubles(int ranks, const Words& words, absl::Status (*run)(const BenchJob&)) {
  absl::StatusOr<BenchWords> parsed = ParseBenchWords(words);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  testing::internal::CaptureStdout();
  test::OnDoubles(ranks, {.groups = test::NcclGroups}, [&](test::DoubleRank& rank) {
    RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
    test::RegisterDoubleKernels(rank.context);
    DeviceMesh mesh(rank.context, rank.groups, {{"dp"}, {ranks}}, rank.groups.kinds());
    BenchJob job{*parsed, parsed->config, rank.context, mesh, DeviceKind::kCuda};
    absl::Status status = run(job);
    EXPECT_TRUE(status.ok()) << status;
  });
  std::vector<Json> lines;
  std::istringstream out(testing::internal::GetCapturedStdout());
  for (std::string line; std::getline(out, line);) lines.push_back(Json::parse(line));
  return lines;
}

// On a device that records, each case is measured as issued and as replayed, and both results are checked.
TEST(CollectiveBench, MeasuresBothModesOfADevice) {
  for (int ranks : {2, 3}) {
    std::vector<Json> lines = LinesOnDoubles(
        ranks, {"collective", "op=all", "bytes=64,4K", "repeats=2", "dtype=bf16", "--json"}, RunCollectiveBench);
    EXPECT_EQ(lines.size(), size_t(2 * (2 * (kNumCollectiveOps - 1) + 1)));  // a barrier has no size
    std::set<std::string> seen;
    for (const Json& line : lines) {
      seen.insert(line["labels"]["op"].get<std::string>() + " " + line["labels"]["mode"].get<std::string>());
      EXPECT_EQ(line["more"]["wrong"], 0) << line;
      EXPECT_EQ(line["device"], "cuda");
      EXPECT_EQ(line["device_name"], "a double");
      EXPECT_EQ(line["ranks"], ranks);
      EXPECT_EQ(line["repeats"], 2);
    }
    EXPECT_EQ(seen.size(), size_t(2 * kNumCollectiveOps));
  }
}

TEST(BenchJson, RatesAreThoseOfTheMedian) {
  BenchLine line{.kind = "gemm", .name = "a \"b\"", .dtype = "f32", .unit = "TFLOP/s"};
  line.sizes = {{"m", 3}};
  line.times.ms = {1, 2, 4};
  Json json = Json::parse(BenchJson(line, {.device = "cpu", .device_name = "x", .host = "h"}));
  EXPECT_EQ(json["case"], "a \"b\"");
  EXPECT_EQ(json["median_ms"], 2);
  EXPECT_EQ(json["p90_ms"], 4);
  EXPECT_TRUE(json["rate"].is_null());
  EXPECT_EQ(json["sizes"]["m"], 3);
  for (const char* key : {"version", "commit", "host", "unix_time", "calls", "processor_ms", "threads", "more"})
    EXPECT_TRUE(json.contains(key)) << key;
}

// A line of the program for the report. Without a rate it is in no chart.
std::string LineOf(const char* name, int ranks, double ms, bool has_rate = true) {
  BenchLine line{.kind = "gemm", .name = name, .dtype = "f32", .unit = "TFLOP/s"};
  line.times.ms = {ms};
  if (has_rate) line.rate = 12 / ms;
  return BenchJson(line, {.device = "cpu", .device_name = "x", .host = "h", .ranks = ranks}) + "\n";
}

// The report reads what the program writes. There is one case per kind, name, dtype and device, and its latest line
// counts.
TEST(Scaling, ReadsTheLinesOfTheBench) {
  testing_::TempFolder folder;
  std::string text = LineOf("a", 1, 1) + LineOf("b", 1, 2) + LineOf("a", 2, 4) + LineOf("a", 2, 3) +
                     LineOf("barrier", 2, 3, /*has_rate=*/false);
  std::string path = folder.Write("bench.jsonl", text);
  EXPECT_TRUE(IsBenchFile(path));
  absl::StatusOr<Scaling> scaling = ReadScaling(std::vector{path});
  ASSERT_TRUE(scaling.ok()) << scaling.status();
  ASSERT_EQ(scaling->cases.size(), 2u);
  EXPECT_EQ(scaling->cases[0].rates, (std::map<int64_t, double>{{1, 12}, {2, 4}}));
  EXPECT_EQ(scaling->cases[1].rates, (std::map<int64_t, double>{{1, 6}}));
  EXPECT_EQ(scaling->places.size(), 1u);
  std::string page = HtmlScaling(*scaling, "bench");
  EXPECT_NE(page.find("<td>4 (33 %)</td>"), page.npos);
  folder.Write("bench.jsonl", text + "{\"kind\":\"gemm\"}\n");
  EXPECT_NE(ReadScaling(std::vector{path}).status().message().find("bench.jsonl:6: expected case as a string"),
            std::string::npos);
}

// Lines of one case on as many ranks must be measured under the same conditions.
TEST(Scaling, RefusesOtherLabelsSizesAndDevices) {
  testing_::TempFolder folder;
  std::string last = LineOf("a", 2, 4);
  for (auto [key, other] : {std::pair{"\"labels\":{}", "\"labels\":{\"mesh\":\"tp=2\"}"},
                            {"\"sizes\":{}", "\"sizes\":{\"m\":3}"},
                            {"\"device_name\":\"x\"", "\"device_name\":\"y\""}}) {
    std::string line = last;
    line.replace(line.find(key), std::string_view(key).size(), other);
    std::string path = folder.Write("bench.jsonl", LineOf("a", 1, 1) + last + line);
    absl::Status status = ReadScaling(std::vector{path}).status();
    EXPECT_NE(status.message().find("expected one measurement of a f32 cpu on 2 ranks"), std::string::npos) << status;
  }
}

// Names that are too long for a line have lines of their own.
TEST(Scaling, DrawsAPicture) {
  auto drawn = [](const std::string& name) {
    Scaling scaling;
    for (int i = 0; i < 4; i++)
      scaling.cases.push_back({"gemm", fmt::format("{} {}", name, i), "TFLOP/s", {{1, 12}, {2, 4}}, {}});
    return PictureOf(scaling);
  };
  auto lines_of_names = [](const std::string& svg) {
    std::string names = svg.substr(svg.find("class=\"name\""));
    names = names.substr(0, names.find("</g>"));
    int count = 0;
    for (size_t at = 0; (at = names.find("<text ", at)) != names.npos; at++) count++;
    return count;
  };
  std::string picture = drawn("a");
  EXPECT_EQ(picture.find(kPictureBegin), 0u);
  for (const char* shown : {"gemm in TFLOP/s, by ranks", "TFLOP/s per rank", "a 0", "a 3"})
    EXPECT_NE(picture.find(shown), picture.npos) << shown;
  EXPECT_EQ(lines_of_names(picture), 1);
  EXPECT_EQ(lines_of_names(drawn(std::string(60, 'n'))), 5);
}

}  // namespace
}  // namespace weft
