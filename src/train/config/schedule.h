// Learning rate schedules, as rows of a table.
#pragma once
#include <span>

#include "weft/train/config/config.h"

namespace weft {

// Returns the learning rate of `step`, which must be in [1, train.steps]. For a schedule that PyTorch has, step i has
// the rate of PyTorch's epoch i - 1. So the first step after the warm-up has optimizer.lr, and cosine, linear and wsd
// would reach schedule.min_lr one step after the last. With w = schedule.warmup_steps and n = train.steps:
//   warm-up       LinearLR(start_factor = 1 / (w + 1), total_iters = w)
//   cosine        CosineAnnealingLR(T_max = n - w, eta_min = min_lr)
//   linear        LinearLR(end_factor = min_lr / lr, total_iters = n - w)
//   wsd           holds optimizer.lr until epoch w + 0.8 (n - w), then falls linearly
//   inverse_sqrt  optimizer.lr sqrt((w + 1) / i), but not below min_lr (Vaswani et al. 2017)
double LearningRate(const Config& config, int64_t step);

// A step after the warm-up, as the schedules see it.
struct ScheduledStep {
  double lr, low;   // optimizer.lr, schedule.min_lr
  double progress;  // fraction of the steps after the warm-up, in [0, 1)
  double step, warmup;
};
struct Schedule {
  const char* name;
  double (*rate)(const ScheduledStep& at);
};
std::span<const Schedule* const> Schedules();

}  // namespace weft
