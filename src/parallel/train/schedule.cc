#include "parallel/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft {

double LearningRate(const Config& config, int64_t step) {
  double lr = config.optimizer.lr, low = config.schedule.min_lr;
  int64_t warmup = config.schedule.warmup_steps, steps = config.train.steps;
  if (step <= warmup) return lr * double(step) / double(warmup + 1);
  double progress = std::clamp(double(step - warmup) / double(std::max<int64_t>(steps - warmup, 1)), 0.0, 1.0);
  switch (config.schedule.name) {
    case ScheduleName::kCosine:
      return low + (lr - low) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case ScheduleName::kLinear:
      return lr + (low - lr) * progress;
    case ScheduleName::kWsd:
      return progress < 0.8 ? lr : lr + (low - lr) * (progress - 0.8) / 0.2;
    default:
      return lr;
  }
}

}  // namespace weft
