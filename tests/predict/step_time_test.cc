// StepTime: the simulation of lanes agrees with the longest path through what waits for what, over random programs.
#include "weft/core/predict/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace weft {
namespace {

struct Program {
  std::vector<int> lanes;
  std::vector<BatchWork> work;
  std::vector<double> ms;
  OverlapPlan overlap;
  OverlapPlan serial;  // without lanes
};

// A program of kernels and of collectives on up to `lanes` lanes. Calls touch at random.
Program Random(std::mt19937& random, int lanes, size_t size, double touching) {
  Program p;
  auto uniform = [&] { return std::uniform_real_distribution<double>(0, 1)(random); };
  for (size_t i = 0; i < size; i++) {
    p.lanes.push_back(int(uniform() * (lanes + 2)) - 2);  // two thirds or less are collectives
    p.lanes.back() = std::max(p.lanes.back(), OverlapPlan::kMain);
    BatchWork work;
    work.kind = p.lanes.back() >= 0 ? WorkClass::kCollective : WorkClass(int(uniform() * 3));
    p.work.push_back(work);
    p.ms.push_back(0.01 + uniform());
  }
  std::vector<char> touch(size * size);
  for (char& t : touch) t = uniform() < touching;
  p.overlap = PlanOverlap(p.lanes, [&](size_t i, size_t j) { return touch[i * size + j] != 0; });
  p.serial.entries.resize(size);
  return p;
}

// Every entry as a node of a graph: returns when the last is done, by relaxing the waits until nothing changes.
double LongestPath(const Program& p) {
  size_t n = p.ms.size();
  std::vector<double> end(n);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < n; i++) {
      double begin = 0;
      for (size_t j = 0; j < i; j++) {
        bool before = p.lanes[j] == OverlapPlan::kMain || p.lanes[j] == p.lanes[i];  // a lane waits for the main stream
        const auto& waits = p.overlap.entries[i].waits_for;
        if (before || std::find(waits.begin(), waits.end(), j) != waits.end()) begin = std::max(begin, end[j]);
      }
      changed |= end[i] != begin + p.ms[i];
      end[i] = begin + p.ms[i];
    }
  }
  return n == 0 ? 0 : *std::max_element(end.begin(), end.end());
}

double SumOf(const Program& p, int lane) {
  double sum = 0;
  for (size_t i = 0; i < p.ms.size(); i++)
    if (p.lanes[i] == lane) sum += p.ms[i];
  return sum;
}

// Sums of some tens of times differ by their order, by less than this.
constexpr double kRounding = 1e-12;

TEST(StepTime, IsTheLongestPath) {
  std::mt19937 random(1);
  for (int lanes = 0; lanes <= 3; lanes++)
    for (size_t size : {0, 1, 2, 7, 40})
      for (double touching : {0.0, 0.1, 0.5, 1.0})
        for (int repeat = 0; repeat < 10; repeat++) {
          Program p = Random(random, lanes, size, touching);
          StepTime time = Simulate(p.overlap, p.work, p.ms);
          double sum = std::accumulate(p.ms.begin(), p.ms.end(), 0.0);
          double kernels = SumOf(p, OverlapPlan::kMain);
          EXPECT_NEAR(time.total, LongestPath(p), kRounding * sum);
          // Between its longest stream and one after the other.
          EXPECT_LE(time.total, sum * (1 + kRounding));
          for (int lane = OverlapPlan::kMain; lane < lanes; lane++)
            EXPECT_GE(time.total, SumOf(p, lane) * (1 - kRounding));
          // The parts make the whole, and no more is exposed than there is.
          EXPECT_NEAR(time.products + time.attention + time.memory, kernels, kRounding * sum);
          EXPECT_NEAR(kernels + time.exposed, time.total, kRounding * sum);
          EXPECT_NEAR(time.collectives, sum - kernels, kRounding * sum);
          EXPECT_LE(time.exposed, time.collectives + kRounding * sum);
        }
}

TEST(StepTime, WithoutLanesIsTheSumOfItsParts) {
  std::mt19937 random(2);
  for (int repeat = 0; repeat < 50; repeat++) {
    Program p = Random(random, 2, 30, 0.3);
    StepTime time = Simulate(p.serial, p.work, p.ms);
    double sum = std::accumulate(p.ms.begin(), p.ms.end(), 0.0);
    EXPECT_NEAR(time.total, sum, kRounding * sum);
    EXPECT_NEAR(time.exposed, time.collectives, kRounding * sum);
  }
}

// Slower parts never make a faster step, and parts that all take k times as long make one that takes k times as long.
TEST(StepTime, GrowsWithItsParts) {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 50; repeat++) {
    Program p = Random(random, 2, 30, 0.2);
    double before = Simulate(p.overlap, p.work, p.ms).total;
    for (size_t i = 0; i < p.ms.size(); i++) {
      std::vector<double> slower = p.ms;
      slower[i] *= 3;
      EXPECT_GE(Simulate(p.overlap, p.work, slower).total, before);
    }
    std::vector<double> all = p.ms;
    for (double& ms : all) ms *= 4;
    EXPECT_DOUBLE_EQ(Simulate(p.overlap, p.work, all).total, 4 * before);  // 4 changes no bit of a significand
  }
}

TEST(StepTime, AddsUpOverSteps) {
  StepTime one{.total = 10, .products = 4, .attention = 3, .memory = 2, .collectives = 6, .exposed = 1, .lost = 0.5};
  StepTime three = one * 3;
  for (double StepTime::*part : {&StepTime::total, &StepTime::products, &StepTime::attention, &StepTime::memory,
                                 &StepTime::collectives, &StepTime::exposed, &StepTime::lost})
    EXPECT_EQ(three.*part, 3 * (one.*part));
}

}  // namespace
}  // namespace weft
