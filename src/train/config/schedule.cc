#include "weft/train/config/schedule.h"

#include <cmath>
#include <numbers>

#include "weft/core/base/error.h"

namespace weft {

double LearningRate(const Config& config, int64_t step) {
  constexpr double kHold = 0.8;  // of the steps after the warm-up: where wsd begins to decay
  double lr = config.optimizer.lr, low = config.schedule.min_lr;
  int64_t warmup = config.schedule.warmup_steps, epoch = step - 1;
  if (epoch < warmup) return lr * double(step) / double(warmup + 1);
  double progress = double(epoch - warmup) / double(config.train.steps - warmup);  // in [0, 1)
  switch (config.schedule.name) {
    case ScheduleName::kConstant:
      return lr;
    case ScheduleName::kCosine:
      return low + (lr - low) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case ScheduleName::kLinear:
      return lr + (low - lr) * progress;
    case ScheduleName::kWsd:
      return progress < kHold ? lr : lr + (low - lr) * (progress - kHold) / (1 - kHold);
  }
  Fail("schedule.name is none of the names");
}

}  // namespace weft
