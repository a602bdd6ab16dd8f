// A program on several streams gives the results of one stream, whatever the delay of each stream.
#include "weft/core/compile/overlap/overlap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "double/device_double.h"
#include "error_of.h"
#include "share.h"
#include "weft/core/base/error.h"
#include "weft/core/base/tensor.h"
#include "weft/core/compile/overlap/host_overlap.h"
#include "weft/core/compile/overlap/stream_overlap.h"

namespace weft {
namespace {

using test::DeviceDouble;

constexpr size_t kCells = 6;
using Cells = std::array<uint64_t, kCells>;

// A call of these programs: it hashes the cells that it reads into the cell that it writes. Cells are memory that calls
// share.
struct Mix {
  std::vector<size_t> reads;
  size_t writes = 0;
  int lane = OverlapPlan::kMain;  // the lane of a collective, from 0
  uint64_t salt = 0;

  void Run(uint64_t* cells) const {
    uint64_t value = salt;
    for (size_t cell : reads) value = (value ^ cells[cell]) * 0x9E3779B97F4A7C15U + 1;
    cells[writes] = value;
  }
};

std::vector<Mix> Drawn(std::mt19937_64& draw) {
  std::vector<Mix> program(5 + draw() % 25);
  for (Mix& mix : program) {
    int lane = draw() % 2 == 0 ? int(draw() % 3) : OverlapPlan::kMain;
    mix = {{draw() % kCells, draw() % kCells}, draw() % kCells, lane, draw()};
    if (draw() % 4 == 0) mix.reads.clear();
  }
  return program;
}

// The calls as an executable binds them, over memory of a device.
struct Bound {
  std::vector<std::array<TensorView, 3>> views;
  std::vector<KernelCall> calls;

  Bound(const std::vector<Mix>& program, const Tensor& cells) {
    views.resize(program.size());
    auto view = [&](size_t cell) { return MakeView(static_cast<char*>(cells.data()) + cell * 8, DType::kI64, {1}); };
    for (size_t i = 0; i < program.size(); i++) {
      size_t n = program[i].reads.size();
      for (size_t k = 0; k < n; k++) views[i][k] = view(program[i].reads[k]);
      views[i][n] = view(program[i].writes);
      calls.push_back({.attrs = nullptr,
                       .in = {views[i].data(), n},
                       .out = {views[i].data() + n, 1},
                       .workspace = nullptr,
                       .workspace_bytes = 0,
                       .context = nullptr,
                       .mesh = nullptr});
    }
  }
};

OverlapPlan PlanOf(const std::vector<Mix>& program, const Bound& bound) {
  std::vector<int> lanes;
  for (const Mix& mix : program) lanes.push_back(mix.lane);
  return PlanOverlap(lanes, [&](size_t i, size_t j) { return Touch(bound.calls[i], bound.calls[j]); });
}

std::vector<size_t> WaitsOf(const OverlapPlan& plan, size_t i) {
  return {plan.entries[i].waits_for.begin(), plan.entries[i].waits_for.end()};
}

Cells CellsOf(const Tensor& cells) {
  Tensor host = cells.To(CpuRuntime());
  Cells values;
  std::copy_n(host.as<uint64_t>(), kCells, values.begin());
  return values;
}

TEST(Overlap, GivesWhatOneStreamGives) {
  std::mt19937_64 draw(3);
  int beside = 0, lanes_wait = 0;
  for (int round = 0; round < std::max(20, 150 / test::Share()); round++) {
    DeviceDouble device(/*most_us=*/60, draw());
    std::vector<Mix> program = Drawn(draw);
    Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
    auto* memory = static_cast<uint64_t*>(device.Reached(cells.data()));
    Bound bound(program, cells);
    OverlapPlan plan = PlanOf(program, bound);
    for (const OverlapPlan::Entry& entry : plan.entries) {
      beside += entry.lane != OverlapPlan::kMain;
      lanes_wait += entry.lane != OverlapPlan::kMain && !entry.waits_for.empty();
    }
    StreamOverlap overlap(device, plan);
    Cells want{};
    for (int run = 0; run < 3; run++) {  // each run starts from the values that the previous one left
      for (const Mix& mix : program) mix.Run(want.data());
      overlap.Issue([&](size_t i) { device.Post([&program, memory, i] { program[i].Run(memory); }); });
    }
    EXPECT_EQ(CellsOf(cells), want) << "round " << round;
  }
  EXPECT_GT(beside, 20);
  EXPECT_GT(lanes_wait, 20) << "of one lane for another";
}

// The same on the CPU, whose lanes are threads.
TEST(Overlap, ThreadsGiveWhatOneThreadGives) {
  std::mt19937_64 draw(4);
  for (int round = 0; round < std::max(20, 150 / test::Share()); round++) {
    std::vector<Mix> program = Drawn(draw);
    Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)});
    Bound bound(program, cells);
    HostOverlap overlap(PlanOf(program, bound));
    std::vector<std::chrono::microseconds> late(program.size());
    for (auto& time : late) time = std::chrono::microseconds(draw() % 4 == 0 ? int64_t(draw() % 60) : 0);
    Cells want{};
    for (int run = 0; run < 3; run++) {
      for (const Mix& mix : program) mix.Run(want.data());
      overlap.Issue([&](size_t i) {
        if (late[i].count()) std::this_thread::sleep_for(late[i]);
        program[i].Run(cells.as<uint64_t>());
      });
    }
    EXPECT_EQ(CellsOf(cells), want) << "round " << round;
  }
}

// A call that throws ends the run with its error, and so do later runs. Collectives that were issued before a kernel
// throws are still made, because other ranks wait for them.
TEST(Overlap, ThreadsPassOnErrors) {
  const std::vector<Mix> program = {{{0}, 1, 0}, {{2}, 3, 1}, {{4}, 5}, {{1}, 2}, {{5}, 4, 0}};
  for (size_t wrong = 0; wrong < program.size(); wrong++) {
    Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)});
    HostOverlap overlap(PlanOf(program, Bound(program, cells)));
    std::array<std::atomic<int>, 5> made{};
    auto run = [&] {
      overlap.Issue([&](size_t i) {
        if (i == wrong) Fail("a wrong call");
        made[i]++;
      });
    };
    EXPECT_EQ(test::ErrorOf(run), "a wrong call") << wrong;
    bool kernel = program[wrong].lane == OverlapPlan::kMain;
    for (size_t i = 0; kernel && i < wrong; i++) EXPECT_EQ(made[i], 1) << "call " << i << " before " << wrong;
    int before = made[0];
    EXPECT_EQ(test::ErrorOf(run), "a wrong call") << wrong;
    EXPECT_EQ(made[0], before);
  }
}

// The second call reads the cell that the first, a collective, writes. With its wait it reads the new value. With the
// wait removed from the plan it reads the old one.
TEST(Overlap, WithoutItsWaitsAProgramReadsOldValues) {
  const std::vector<Mix> program = {{{0}, 1, 0, 5}, {{1}, 2, OverlapPlan::kMain, 7}};
  Cells want{}, old{};
  for (const Mix& mix : program) mix.Run(want.data());
  program[1].Run(old.data());
  ASSERT_NE(want[2], old[2]);
  for (bool waits : {true, false}) {
    DeviceDouble device;
    Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
    auto* memory = static_cast<uint64_t*>(device.Reached(cells.data()));
    OverlapPlan plan = PlanOf(program, Bound(program, cells));
    ASSERT_EQ(WaitsOf(plan, 1), std::vector<size_t>{0});
    if (!waits) plan.entries[1].waits_for.clear();
    std::mutex gate;  // the collective must pass it
    StreamOverlap overlap(device, plan);
    std::unique_lock closed(gate);
    overlap.Issue([&](size_t i) {
      device.Post([&, i] {
        if (program[i].lane != OverlapPlan::kMain) std::lock_guard pass(gate);
        program[i].Run(memory);
      });
    });
    if (waits) closed.unlock();
    EXPECT_EQ(CellsOf(cells)[2], waits ? want[2] : old[2]);
  }
}

// Only the first call that needs a collective's result or memory waits for it. Later calls, and calls that share
// nothing with it, do not.
TEST(Overlap, WaitsOnceAndOnlyWhereBytesMeet) {
  DeviceDouble device;
  Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
  const std::vector<Mix> program = {{{0}, 1, 0}, {{2}, 3, 0}, {{4}, 5},    {{5}, 4}, {{3}, 5},
                                    {{1}, 5},    {{0}, 0},    {{5}, 2, 0}, {{}, 5}};
  OverlapPlan plan = PlanOf(program, Bound(program, cells));
  const std::vector<size_t> none, want[] = {none, none, none, none, {1}, none, none, none, {7}};
  for (size_t i = 0; i < program.size(); i++) EXPECT_EQ(WaitsOf(plan, i), want[i]) << "call " << i;
  EXPECT_TRUE(plan.last.empty());  // call 8 overwrites the cell that the last collective reads, so it has waited for it
}

// A lane waits for another lane if their calls share a cell, unless the main stream has already waited. In that case
// the lane only waits for the main stream.
// A slice of a tensor: the elements [begin, end) of one dim.
struct SliceOf {
  int dim;
  int64_t begin, end;

  SliceOf(std::mt19937_64& draw, const Shape& shape) : dim(int(draw() % shape.size())) {
    begin = int64_t(draw() % uint64_t(shape[size_t(dim)]));
    end = begin + 1 + int64_t(draw() % uint64_t(shape[size_t(dim)] - begin));
  }
  TensorView Of(float* data, const Shape& shape) const {
    TensorView view = MakeView(data, DType::kF32, shape);
    DimView& d = view.dims[size_t(dim)];
    view.data = data + begin * d.stride;
    d.extent = d.capacity = end - begin;
    return view;
  }
};
std::set<const float*> ElementsOf(const TensorView& view) {
  std::set<const float*> elements;
  for (int64_t i = 0; i < view.NumElements(); i++) {
    int64_t rest = i, at = 0;
    for (int d = view.rank - 1; d >= 0; rest /= view.dim(d--).extent)
      at += rest % view.dim(d).extent * view.dim(d).stride;
    elements.insert(view.as<const float>() + at);
  }
  return elements;
}

// A wait that is missing gives wrong numbers. One too many costs time, so slices of one dim wait only for what they
// share.
TEST(Overlap, SlicesTouchWhereTheyShareElements) {
  std::mt19937_64 draw(17);
  int apart = 0;
  for (int round = 0; round < 20000; round++) {
    Shape shape;
    for (int d = 0; d < 3; d++) shape.push_back(1 + int64_t(draw() % 5));
    std::vector<float> memory(size_t(NumElements(shape)));
    SliceOf a(draw, shape), b(draw, shape);
    TensorView writes = a.Of(memory.data(), shape), reads = b.Of(memory.data(), shape);
    KernelCall writer{.out = {&writes, 1}}, reader{.in = {&reads, 1}};
    std::set<const float*> mine = ElementsOf(writes), other = ElementsOf(reads);
    bool share = std::ranges::any_of(mine, [&](const float* element) { return other.contains(element); });
    std::string what = fmt::format("{}: dim {} [{}, {}) and dim {} [{}, {})", ToString(shape), a.dim, a.begin, a.end,
                                   b.dim, b.begin, b.end);
    EXPECT_TRUE(Touch(writer, reader) || !share) << what;
    if (a.dim == b.dim) {
      EXPECT_EQ(Touch(writer, reader), share) << what;
    }
    apart += a.dim == b.dim && !share;
  }
  EXPECT_GT(apart, 100);
}

TEST(Overlap, LanesWaitForEachOther) {
  DeviceDouble device;
  Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
  const std::vector<Mix> program = {{{0}, 1, 0}, {{2}, 3, 1}, {{1}, 4, 1}, {{0}, 5, 2},
                                    {{1}, 0},    {{1}, 2, 2}, {{4}, 4, 0}, {{3}, 3, 0}};
  OverlapPlan plan = PlanOf(program, Bound(program, cells));
  const std::vector<size_t> none, want[] = {none, none, {0}, none, {0, 3}, {1}, {2}, none};
  for (size_t i = 0; i < program.size(); i++) EXPECT_EQ(WaitsOf(plan, i), want[i]) << "call " << i;
  EXPECT_EQ(plan.last, (std::vector<size_t>{7, 2, 5}));
  EXPECT_EQ(plan.lanes, 3);
}

}  // namespace
}  // namespace weft
