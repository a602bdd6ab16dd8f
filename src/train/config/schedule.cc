#include "weft/train/config/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr double kHold = 0.8;  // the fraction of the steps after the warm-up at which wsd begins to decay

constexpr Schedule kConstant{"constant", [](const ScheduledStep& at) { return at.lr; }};
constexpr Schedule kCosine{"cosine", [](const ScheduledStep& at) {
                             return at.low + (at.lr - at.low) * 0.5 * (1 + std::cos(std::numbers::pi * at.progress));
                           }};
constexpr Schedule kLinear{"linear", [](const ScheduledStep& at) { return at.lr + (at.low - at.lr) * at.progress; }};
constexpr Schedule kWsd{"wsd", [](const ScheduledStep& at) {
                          if (at.progress < kHold) return at.lr;
                          return at.lr + (at.low - at.lr) * (at.progress - kHold) / (1 - kHold);
                        }};
constexpr Schedule kInverseSqrt{"inverse_sqrt", [](const ScheduledStep& at) {
                                  return std::max(at.low, at.lr * std::sqrt((at.warmup + 1) / at.step));
                                }};
constexpr const Schedule* kSchedules[] = {&kConstant, &kCosine, &kLinear, &kWsd, &kInverseSqrt};

}  // namespace

std::span<const Schedule* const> Schedules() { return kSchedules; }

double LearningRate(const Config& config, int64_t step) {
  double lr = config.optimizer.lr;
  int64_t warmup = config.schedule.warmup_steps, epoch = step - 1;
  if (epoch < warmup) return lr * double(step) / double(warmup + 1);
  double progress = double(epoch - warmup) / double(config.train.steps - warmup);
  for (const Schedule* schedule : Schedules())
    if (config.schedule.name == schedule->name)
      return schedule->rate({lr, config.schedule.min_lr, progress, double(step), double(warmup)});
  Fail("schedule.name is none of the names");
}

}  // namespace weft
