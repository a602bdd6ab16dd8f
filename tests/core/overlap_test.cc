// Programs on two streams: the results are those of one stream, however late each begins its work.
#include "weft/core/compile/overlap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <vector>

#include "double/device_double.h"
#include "share.h"
#include "weft/core/base/tensor.h"

namespace weft {
namespace {

using test::DeviceDouble;

constexpr size_t kCells = 6;
using Cells = std::array<uint64_t, kCells>;

// What a call of these programs does: mixes what it reads into what it writes. Cells are memory that calls share.
struct Mix {
  std::vector<size_t> reads;
  size_t writes = 0;
  bool collective = false;
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
    mix = {{draw() % kCells, draw() % kCells}, draw() % kCells, draw() % 3 == 0, draw()};
    if (draw() % 4 == 0) mix.reads.clear();
  }
  return program;
}

// The calls as an executable binds them, on memory of a device.
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
  std::vector<bool> collective;
  for (const Mix& mix : program) collective.push_back(mix.collective);
  return PlanOverlap(collective, [&](size_t i, size_t j) { return Touch(bound.calls[i], bound.calls[j]); });
}

Cells CellsOf(const Tensor& cells) {
  Tensor host = cells.To(CpuRuntime());
  Cells values;
  std::copy_n(host.as<uint64_t>(), kCells, values.begin());
  return values;
}

TEST(Overlap, GivesWhatOneStreamGives) {
  std::mt19937_64 draw(3);
  int beside = 0;
  for (int round = 0; round < std::max(20, 150 / test::Share()); round++) {
    DeviceDouble device(/*most_us=*/60, draw());
    std::vector<Mix> program = Drawn(draw);
    Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
    auto* memory = static_cast<uint64_t*>(device.Reached(cells.data()));
    Bound bound(program, cells);
    OverlapPlan plan = PlanOf(program, bound);
    for (const OverlapPlan::Entry& entry : plan.entries) beside += entry.beside;
    Overlap overlap(device, plan);
    Cells want{};
    for (int run = 0; run < 3; run++) {  // a program runs again and again, on what it has left
      for (const Mix& mix : program) mix.Run(want.data());
      overlap.Issue([&](size_t i) { device.Post([&program, memory, i] { program[i].Run(memory); }); });
    }
    EXPECT_EQ(CellsOf(cells), want) << "round " << round;
  }
  EXPECT_GT(beside, 20);
}

// y is made of x, z of y: with the wait of the new y, with the wait taken out of the plan of the old one.
TEST(Overlap, WithoutItsWaitsAProgramReadsOldValues) {
  const std::vector<Mix> program = {{{0}, 1, true, 5}, {{1}, 2, false, 7}};
  Cells want{}, old{};
  for (const Mix& mix : program) mix.Run(want.data());
  program[1].Run(old.data());
  ASSERT_NE(want[2], old[2]);
  for (bool waits : {true, false}) {
    DeviceDouble device;
    Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
    auto* memory = static_cast<uint64_t*>(device.Reached(cells.data()));
    OverlapPlan plan = PlanOf(program, Bound(program, cells));
    EXPECT_EQ(plan.entries[1].waits_for, 0u);
    if (!waits) plan.entries[1].waits_for = OverlapPlan::kNobody;
    std::mutex gate;  // that the collective has to pass
    Overlap overlap(device, plan);
    std::unique_lock closed(gate);
    overlap.Issue([&](size_t i) {
      device.Post([&, i] {
        if (program[i].collective) std::lock_guard pass(gate);
        program[i].Run(memory);
      });
    });
    if (waits) closed.unlock();
    EXPECT_EQ(CellsOf(cells)[2], waits ? want[2] : old[2]);
  }
}

// Who is first to need something of a collective waits; later ones, and those that need nothing of it, do not.
TEST(Overlap, WaitsOnceAndOnlyWhereBytesMeet) {
  DeviceDouble device;
  Tensor cells = Tensor::Zeros(DType::kI64, {int64_t(kCells)}, device);
  const std::vector<Mix> program = {{{0}, 1, true}, {{2}, 3, true}, {{4}, 5},       {{5}, 4}, {{3}, 5},
                                    {{1}, 5},       {{0}, 0},       {{5}, 2, true}, {{}, 5}};
  OverlapPlan plan = PlanOf(program, Bound(program, cells));
  const size_t none = OverlapPlan::kNobody, want[] = {none, none, none, none, 1, none, none, none, 7};
  for (size_t i = 0; i < program.size(); i++) EXPECT_EQ(plan.entries[i].waits_for, want[i]) << "call " << i;
  EXPECT_EQ(plan.last, none);  // call 8 takes the memory that the last collective reads, and has waited
}

}  // namespace
}  // namespace weft
