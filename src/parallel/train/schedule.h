// Learning rate schedules.
#pragma once
#include "parallel/train/config.h"

namespace weft {

// The learning rate of a step (from 1 to train.steps): linear warm-up to optimizer.lr, then as schedule.name says, down
// to schedule.min_lr at the last step. wsd holds the rate and decays linearly over the last fifth.
double LearningRate(const Config& config, int64_t step);

}  // namespace weft
