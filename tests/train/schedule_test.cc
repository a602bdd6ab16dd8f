// Learning rates are those of PyTorch's schedulers: by its numbers, and by its recurrences over many lengths.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "weft/train/config/schedule.h"

namespace weft {
namespace {

constexpr double kTolerance = 1e-12;  // of optimizer.lr

Config ConfigOf(const char* name, double lr, double min_lr, int64_t warmup, int64_t steps) {
  Config config;
  config.optimizer.lr = lr;
  config.schedule = {.name = name, .warmup_steps = warmup, .min_lr = min_lr};
  config.train.steps = steps;
  return config;
}

std::vector<double> Rates(const Config& config) {
  std::vector<double> rates;
  for (int64_t step = 1; step <= config.train.steps; step++) rates.push_back(LearningRate(config, step));
  return rates;
}

void ExpectClose(const std::vector<double>& got, const std::vector<double>& want, double lr, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(got[i], want[i], kTolerance * lr) << what << " step " << i + 1;
}

// Printed by PyTorch 2.15: SequentialLR of LinearLR and the schedule, lr 1e-3, min_lr 1e-4, 8 steps.
TEST(Schedule, GivesPyTorchsNumbers) {
  struct Case {
    const char* name;
    int64_t warmup;
    std::vector<double> rates;
  };
  const Case cases[] = {
      {"constant", 3, {0.00025, 0.0005, 0.00075, 0.001, 0.001, 0.001, 0.001, 0.001}},
      {"cosine",
       0,
       {0.001, 0.000965745789630079, 0.0008681980515339464, 0.0007222075445642906, 0.00055, 0.00037779245543570966,
        0.00023180194846605365, 0.00013425421036992097}},
      {"cosine",
       3,
       {0.00025, 0.0005, 0.00075, 0.001, 0.0009140576474687263, 0.0006890576474687263, 0.0004109423525312736,
        0.00018594235253127368}},
      {"linear",
       0,
       {0.001, 0.0008874999999999999, 0.0007749999999999999, 0.0006624999999999999, 0.0005499999999999999,
        0.0004374999999999999, 0.00032499999999999993, 0.00021249999999999993}},
      {"linear",
       3,
       {0.00025, 0.0005, 0.00075, 0.001, 0.0008200000000000001, 0.00064, 0.00046, 0.00028000000000000003}}};
  for (const Case& c : cases)
    ExpectClose(Rates(ConfigOf(c.name, 1e-3, 1e-4, c.warmup, 8)), c.rates, 1e-3,
                fmt::format("schedule {} warm-up {}", c.name, c.warmup));
}

// The next rate from the last one, as PyTorch's chainable schedulers have it. `epoch` counts from the end of the
// warm-up, `length` is the number of epochs that the decay takes.
double NextRate(std::string_view name, double rate, double lr, double low, int64_t epoch, int64_t length) {
  if (name == "cosine") {
    double t = double(epoch), pi_per_epoch = std::numbers::pi / double(length);
    return low + (rate - low) * (1 + std::cos(t * pi_per_epoch)) / (1 + std::cos((t - 1) * pi_per_epoch));
  }
  double fall = low / lr - 1;
  return rate * (1 + fall / (double(length) + double(epoch - 1) * fall));
}

TEST(Schedule, FollowsPyTorchsRecurrences) {
  std::mt19937_64 rng(13);
  std::uniform_real_distribution<double> uniform;
  for (int trial = 0; trial < 400; trial++) {
    int64_t steps = 1 + int64_t(rng() % 300), warmup = int64_t(rng() % uint64_t(steps + 1));
    double lr = std::pow(10, -5 * uniform(rng)), low = trial % 3 == 0 ? 0 : trial % 3 == 1 ? lr : lr * uniform(rng);
    for (const char* name : {"cosine", "linear"}) {
      std::vector<double> want;
      for (int64_t epoch = 0; epoch < steps; epoch++) {
        if (epoch < warmup)
          want.push_back(lr * (1 / double(warmup + 1) * (1 + double(epoch))));
        else if (epoch == warmup)
          want.push_back(lr);
        else
          want.push_back(NextRate(name, want.back(), lr, low, epoch - warmup, steps - warmup));
      }
      ExpectClose(Rates(ConfigOf(name, lr, low, warmup, steps)), want, lr,
                  fmt::format("schedule {} lr {} min_lr {} warm-up {} of {}", name, lr, low, warmup, steps));
    }
  }
}

TEST(Schedule, WsdHoldsFourFifthsAndThenFallsLinearly) {
  Config config = ConfigOf("wsd", 2, 1, 5, 25);  // holds until epoch 21, of 20 epochs after the warm-up
  std::vector<double> rates = Rates(config);
  for (int64_t step = 6; step <= 22; step++) EXPECT_EQ(rates[size_t(step - 1)], 2) << step;
  for (int64_t step = 23; step <= 25; step++)
    EXPECT_NEAR(rates[size_t(step - 1)], 2 - double(step - 1 - 21) / 4, kTolerance) << step;
}

TEST(Schedule, InverseSqrtFallsWithTheRootOfTheStep) {
  std::vector<double> rates = Rates(ConfigOf("inverse_sqrt", 2, 0.5, 3, 100));  // the peak is step 4
  for (int64_t step = 4; step <= 64; step++)
    EXPECT_NEAR(rates[size_t(step - 1)], 2 * std::sqrt(4 / double(step)), kTolerance) << step;
  for (int64_t step = 64; step <= 100; step++) EXPECT_EQ(rates[size_t(step - 1)], 0.5) << step;
}

// Every schedule trains one step at optimizer.lr, and its last step trains though min_lr is 0.
TEST(Schedule, UsesThePeakAndTheLastStep) {
  for (const Schedule* schedule : Schedules())
    for (int64_t steps : {1, 2, 3, 10, 97})
      for (int64_t warmup = 0; warmup < steps; warmup++) {
        std::vector<double> rates = Rates(ConfigOf(schedule->name, 0.5, 0, warmup, steps));
        EXPECT_EQ(rates[size_t(warmup)], 0.5) << schedule->name << " " << warmup << " of " << steps;
        EXPECT_EQ(*std::max_element(rates.begin(), rates.end()), 0.5);
        EXPECT_GT(rates.back(), 0) << schedule->name << " " << warmup << " of " << steps;
      }
}

}  // namespace
}  // namespace weft
